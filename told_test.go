package leadership_test

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
)

// hanging returns, by what hangs, options whose log handler or hook does.
func hanging(hang func()) map[string]*leadership.CandidateOptions {
	all := map[string]*leadership.CandidateOptions{"all lines": handledBy(func(string) { hang() })}
	for _, line := range []string{"standing", "elected", "acknowledged", "leadership ended", "ballot withdrawn", "renewals are overdue",
		"leader changed", "leader gone", "no leader yet", "attempt failed"} {
		all[line] = handledBy(func(message string) {
			if strings.HasPrefix(message, line) {
				hang()
			}
		})
	}
	for kind := leadership.BallotCast; kind <= leadership.AttemptFailed; kind++ {
		all["event: "+kind.String()] = &leadership.CandidateOptions{Events: func(e leadership.Event) {
			if e.Kind == kind {
				hang()
			}
		}}
	}
	return all
}

// failingFirst returns a store whose first Cast and first Observe fail.
func failingFirst(st store.Store) *fakeStore {
	fake := &fakeStore{Store: st}
	fake.cast = func(context.Context, string, string) (store.Ballot, error) {
		fake.cast = nil
		return nil, store.ErrUnavailable
	}
	fake.observe = func(context.Context, string, *store.Known) (store.Known, error) {
		fake.observe = nil
		return store.Known{}, store.ErrUnavailable
	}
	return fake
}

// A log handler or a hook that hangs delays what is told after it, and nothing else: the leader's function is called,
// renewals go on, the ballot is given back and another candidate leads, followers hear of it, Resign and Stop return, and
// Run does a second after its work. Done waits.
func TestHandlersAndHooksThatHang(t *testing.T) {
	for what := range hanging(nil) {
		virtualRun(t, what, func(w *world) {
			var hung atomic.Bool
			released := make(chan struct{})
			opts := hanging(func() { hung.Store(true); <-released })[what]
			st := w.open()
			a, f := w.candidate(failingFirst(st), "a", opts), w.follower(failingFirst(w.open()), opts)
			b := w.candidate(w.open(), "b", nil)
			release := sync.OnceFunc(func() { close(released) })
			w.Cleanup(release)
			leads := func(c *leadership.Candidate) {
				w.Helper()
				w.until(c.IsLeader)
				w.until(func() bool { leader, _ := f.Leader(); return leader.Value == c.Value() })
			}
			f.Start()
			w.until(f.Fresh)
			called := 0
			result := run(a, func(ctx context.Context, term *leadership.Term) error { called++; return serve(ctx, term) })
			leads(a)
			require.Equal(w, 1, called)
			run(b, serve)
			synctest.Wait()
			require.NoError(w, w.observer.RequestResignation(background, election, termOf(a).Token()))
			leads(b)
			w.until(func() bool { return len(w.ballots()) == 2 })
			require.False(w, pending(async(func() error { b.Resign(); return nil })))
			leads(a)
			require.Equal(w, 2, called)
			st.Faults().Cut()
			w.until(func() bool { return termOf(a).Remaining() < time.Second })
			st.Faults().Heal()
			w.at(w.now() + ttl)
			leads(a)
			require.False(w, pending(async(func() error { a.Resign(); return nil })), "Resign")
			leads(b)
			require.False(w, pending(async(func() error { a.Stop(); f.Stop(); return nil })), "Stop")
			w.at(w.now() + time.Second)
			require.False(w, pending(result), "Run")
			require.NoError(w, <-result)
			require.Equal(w, []string{"b"}, w.ballots())
			require.True(w, hung.Load())
			require.False(w, isDone(a) && isDone(f), "it is still being told")
			release()
			require.True(w, isDone(a) && isDone(f))
		})
	}
}

// What a term does is told in the order in which it happens, though other goroutines end the term at the very moment at
// which it begins.
func TestToldInOrder(t *testing.T) {
	virtual(t, func(w *world) {
		var happened diary
		c := w.candidate(w.open(), "a", &leadership.CandidateOptions{
			Logger: handledBy(func(message string) {
				if message != "standing" {
					happened.add("%s", message)
				}
			}).Logger,
			Events: hooks{
				TermBegan:            func(string, uint64) { happened.add("TermBegan") },
				ResignationRequested: func(string, uint64) { happened.add("ResignationRequested") },
				TermEnded:            func(string, uint64, error) { happened.add("TermEnded") },
				GivenBack:            func(string, uint64, time.Duration) { happened.add("GivenBack") },
			}.tell,
		})
		for round := range 100 {
			happened.entries = nil
			for range 8 { // as soon as there is a term, one of them is likely to run
				go func() {
					for termOf(c) == nil && c.Status().State != leadership.WindingDown {
						if c.Status().State == leadership.Idle {
							return
						}
					}
					c.Resign()
				}()
			}
			term := w.campaign(c)
			require.NoError(w, term.Withdraw(background))
			synctest.Wait()
			require.Equal(w, []string{
				"elected", "TermBegan", "leadership ended", "TermEnded", "ballot withdrawn", "GivenBack",
			}, happened.all(), "round %d", round)
		}
	})
}

// sites are the places where user code runs inside a candidate. The script of TestReentry passes through all of them.
var sites = []string{
	"lead", "TermBegan", "GivenBack", "Error", // of the events, which one goroutine tells
}

// visitor runs an action when its site is first reached.
type visitor struct {
	site   string
	action func()
	done   bool // only read and written by the goroutine that arrives, and after everything has ended
}

func (v *visitor) at(site string) {
	if site != v.site || v.done {
		return
	}
	v.done = true
	v.action()
}

// visit lets a candidate on st come to every site, behind another one that leads.
func (v *visitor) visit(w *world, other *leadership.Term, st *memory.Store) {
	w.at(time.Second)
	require.NoError(w, other.Withdraw(background))
	w.at(2 * ttl) // TermBegan, Error
	st.Faults().Cut()
	w.at(2*ttl + valid - time.Second)
	st.Faults().Heal()
	w.at(4 * ttl)
	w.service.Clear(election) // GivenBack
	w.at(6 * ttl)
	require.True(w, v.done, "the script did not come to the site")
}

// reentrant is a candidate that calls the visitor at each site, on a store whose first acknowledgement fails.
func reentrant(w *world, st store.Store, v *visitor) *leadership.Candidate {
	var acknowledged atomic.Bool
	fake := changing(st, func(b *fakeBallot) {
		b.acknowledge = func(ctx context.Context, value string) (store.Leader, error) {
			if !acknowledged.Swap(true) {
				return store.Leader{}, store.ErrUnknownOutcome
			}
			return b.Ballot.Acknowledge(ctx, value)
		}
	})
	c := w.candidate(fake, "a", &leadership.CandidateOptions{Events: hooks{
		TermBegan: func(string, uint64) { v.at("TermBegan") },
		GivenBack: func(string, uint64, time.Duration) { v.at("GivenBack") },
		Error:     func(string, error, time.Duration) { v.at("Error") },
	}.tell})
	return c
}

// scene is what a call from inside needs.
type scene struct {
	w  *world
	c  *leadership.Candidate
	st store.Store
}

// Every method of a candidate and of its term, and Close, called from each site, with a context that never ends, in
// each form. None of them waits for itself, and each takes effect.
func TestReentry(t *testing.T) {
	for action, test := range map[string]struct {
		call  func(s scene)
		waits bool  // it may wait for the store
		ends  bool  // the candidate, for good
		err   error // with which it ends
	}{
		"Resign": {call: func(s scene) { s.c.Resign() }},
		"Term.Withdraw": {waits: true, call: func(s scene) { // Run refuses
			if term := termOf(s.c); term != nil {
				_ = term.Withdraw(background)
			}
		}},
		"Term.Acknowledge": {waits: true, call: func(s scene) {
			if term := termOf(s.c); term != nil {
				_ = term.Acknowledge(background)
			}
		}},
		"Run": {call: func(s scene) {
			ctx, cancel := context.WithCancel(background)
			cancel() // for a candidate that is idle
			require.Error(s.w, s.c.Run(ctx, serve))
		}},
		"Campaign": {waits: true, call: func(s scene) {
			if term, err := s.c.Campaign(background); err == nil { // the hook of a term that was given back
				require.NoError(s.w, term.Withdraw(background))
			}
		}},
		"Stop":  {ends: true, call: func(s scene) { s.c.Stop() }},
		"Close": {ends: true, err: leadership.ErrClosed, call: func(s scene) { require.NoError(s.w, s.st.Close()) }},
	} {
		for form, drive := range forms {
			for _, site := range sites {
				virtualRun(t, action+" in "+site+" of "+form, func(w *world) {
					other := w.lead(w.open(), "other")
					st := w.open()
					v := &visitor{site: site}
					c := reentrant(w, st, v)
					returned := false
					v.action = func() {
						before := w.now()
						test.call(scene{w, c, st})
						returned = true
						if !test.waits {
							require.Equal(w, before, w.now(), "it waited")
						}
					}
					result := async(func() error { return drive(c, v) })

					v.visit(w, other, st)
					require.True(w, returned, "the call has not returned")
					require.Equal(w, test.ends, !pending(result))
					if test.ends {
						require.ErrorIs(w, <-result, test.err)
						require.False(w, c.IsLeader())
						require.Empty(w, w.ballots())
						halt(c)
						return
					}
					require.True(w, c.IsLeader(), "it stands again")
					require.Equal(w, "a", w.leader())
					w.stops(c, result)
				})
			}
		}
	}
}

// End of a term in the leader's function. Withdraw is refused there, and ends nothing.
func TestReentryByTerm(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.candidate(w.open(), "a", nil)
		turns := 0
		result := run(c, func(ctx context.Context, term *leadership.Term) error {
			if turns++; turns == 1 {
				term.End(nil)
				term.End(errTakeover)
				require.ErrorIs(w, context.Cause(ctx), leadership.ErrResigned)
				require.Equal(w, []string{"a"}, w.ballots(), "given back when lead returns")
				return nil
			}
			require.ErrorIs(w, term.Withdraw(background), leadership.ErrRunning)
			require.NoError(w, ctx.Err())
			return serve(ctx, term)
		})
		w.at(time.Second)
		require.True(w, pending(result))
		require.Equal(w, 2, turns)
		w.stops(c, result)
	})
}

// followerSites are the places where user code runs inside a follower.
var followerSites = []string{"LeaderChanged", "Error", "Changes"}

// Every method of a follower, and Close, called from each of its sites, with a context that never ends.
func TestReentryOfAFollower(t *testing.T) {
	type scene struct {
		w  *world
		f  *leadership.Follower
		st store.Store
	}
	for name, test := range map[string]struct {
		call func(s scene)
		ends bool
	}{
		"Start": {func(s scene) { s.f.Start() }, false},
		"Wait": {func(s scene) {
			leader, err := s.f.Wait(background)
			require.NoError(s.w, err)
			require.Equal(s.w, "a", leader.Value)
		}, false},
		"Changes": {func(s scene) {
			for leader := range s.f.Changes(background) {
				if leader.Revision != 0 {
					return
				}
			}
		}, false},
		"Leader": {func(s scene) { s.f.Leader(); s.f.AsOf(); _ = s.f.Err() }, false},
		"Stop":   {func(s scene) { s.f.Stop() }, true},
		"Close":  {func(s scene) { require.NoError(s.w, s.st.Close()) }, true},
	} {
		for _, site := range followerSites {
			virtualRun(t, name+" in "+site, func(w *world) {
				st := w.open()
				fake := &fakeStore{Store: st}
				fake.observe = func(context.Context, string, *store.Known) (store.Known, error) {
					fake.observe = nil
					return store.Known{}, store.ErrUnavailable
				}
				v := &visitor{site: site}
				f := w.follower(fake, &leadership.CandidateOptions{Events: hooks{
					LeaderChanged: func(string, leadership.Leader) { v.at("LeaderChanged") },
					Error:         func(string, error, time.Duration) { v.at("Error") },
				}.tell})
				returned := false
				v.action = func() { test.call(scene{w, f, st}); returned = true }
				iterating := async(func() error {
					for range f.Changes(background) {
						v.at("Changes")
					}
					return nil
				})
				w.at(time.Second)
				w.lead(w.open(), "a")
				w.at(2 * time.Second)
				require.True(w, v.done)
				require.True(w, returned, "the call has not returned")
				require.Equal(w, test.ends, !pending(iterating))
				halt(f)
				require.NoError(w, <-iterating, "the iterator ends")
			})
		}
	}
}

// A function of the program's that ends the context of Run, wherever it runs: Run returns with the cause of the context,
// or with nil if Stop was called too, and leaves no ballot.
func TestContextOfRunEndsInside(t *testing.T) {
	for _, site := range sites {
		for _, then := range []string{"", "Resign", "Term.End", "Stop"} {
			virtualRun(t, site+" "+then, func(w *world) {
				other := w.lead(w.open(), "other")
				st := w.open()
				v := &visitor{site: site}
				c := reentrant(w, st, v)
				ctx, cancel := context.WithCancel(background)
				v.action = func() {
					cancel()
					switch term := termOf(c); {
					case then == "Resign":
						c.Resign()
					case then == "Term.End" && term != nil:
						term.End(nil)
					case then == "Stop":
						c.Stop()
					}
				}
				result := async(func() error {
					return c.Run(ctx, func(ctx context.Context, term *leadership.Term) error {
						v.at("lead")
						return serve(ctx, term)
					})
				})
				v.visit(w, other, st)
				require.False(w, pending(result), "Run has not returned")
				if err := <-result; then == "Stop" {
					require.NoError(w, err)
				} else {
					require.ErrorIs(w, err, context.Canceled)
				}
				require.False(w, c.IsLeader())
				require.Empty(w, w.ballots())
				halt(c)
			})
		}
	}
}

// forms are the two ways to drive a candidate; each returns the error with which it ended.
var forms = map[string]func(c *leadership.Candidate, v *visitor) error{
	"Run": func(c *leadership.Candidate, v *visitor) error {
		return c.Run(background, func(ctx context.Context, term *leadership.Term) error {
			v.at("lead")
			return serve(ctx, term)
		})
	},
	"Campaign": func(c *leadership.Candidate, v *visitor) error {
		for {
			term, err := c.Campaign(background)
			switch {
			case errors.Is(err, leadership.ErrStopped):
				return nil
			case store.Permanent(err):
				return err
			case err != nil: // an event is campaigning
				time.Sleep(100 * time.Millisecond)
				continue
			}
			v.at("lead")
			_ = term.Acknowledge(background)
			<-term.Context().Done()
			ctx, cancel := context.WithTimeout(background, time.Second)
			_ = term.Withdraw(ctx)
			cancel()
		}
	},
}

// Without a logger, what a candidate and a follower do is found in the default log: a takeover that fails again and
// again, and a service that does not answer.
func TestDefaultLog(t *testing.T) {
	old := slog.Default()
	defer log.SetOutput(os.Stderr)
	defer slog.SetDefault(old)
	for _, opts := range []*leadership.CandidateOptions{nil, {Events: hooks{}.tell}} {
		virtual(t, func(w *world) {
			var out journal
			slog.SetDefault(out.logger())
			c := w.candidate(w.open(), "a", opts)
			run(c, func(context.Context, *leadership.Term) error { return errTakeover })
			f := w.follower(&fakeStore{Store: w.open(), observe: func(context.Context, string, *store.Known) (store.Known, error) {
				return store.Known{}, store.ErrUnavailable
			}}, opts)
			f.Start()
			w.at(time.Second)
			require.Contains(w, out.String(), "level=INFO msg=elected election=database/primary")
			require.Contains(w, out.String(), `level=WARN msg="attempt failed, will try again" election=database/primary `+
				`error="the leader's function failed: the disk is full`)
			require.Contains(w, out.String(), `error="service unavailable"`)
			halt(c)
			halt(f)
			synctest.Wait()
		})
	}
}
