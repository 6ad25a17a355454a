package leadership_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// drives are the two ways to drive a candidate that call its callbacks.
var drives = map[string]func(c *leadership.Candidate){
	"Run":            func(c *leadership.Candidate) { run(c, leadership.Lead) },
	"RunForElection": func(c *leadership.Candidate) { c.RunForElection() },
}

// The acknowledgement waits for all won callbacks, which are called in the order in which they were registered.
func TestWonCallbacksComeBeforeTheAcknowledgement(t *testing.T) {
	for name, drive := range drives {
		virtualRun(t, name, func(w *world) {
			var happened diary
			c := w.candidate(w.open(), "a", nil)
			for _, callback := range []string{"first", "second", "third"} {
				c.OnWon(func(ctx context.Context, term *leadership.Term) error {
					require.True(w, c.IsLeader())
					require.Equal(w, ctx, term.Context())
					require.Empty(w, w.leader())
					time.Sleep(10 * ttl) // virtual time: longer than a session without renewals
					require.Empty(w, w.leader())
					happened.add("%s", callback)
					return nil
				})
			}
			loser := w.candidate(w.open(), "b", nil)
			loser.OnNewLeader(func(_ context.Context, leader store.Leader) { happened.add("b lost to %s", leader.Value) })
			loser.OnWon(func(context.Context, *leadership.Term) error { happened.add("b won"); return nil })
			drive(c)
			synctest.Wait()
			loser.RunForElection()
			w.at(30*ttl - 1)
			require.Equal(w, []string{"first", "second"}, happened.all())
			w.at(30 * ttl)
			require.Equal(w, []string{"first", "second", "third", "b lost to a"}, happened.all())
			require.Equal(w, "a", w.leader())
		})
	}
}

func TestWonCallbacksRunBeforeLead(t *testing.T) {
	virtual(t, func(w *world) {
		var happened diary
		c := w.candidate(w.open(), "a", nil)
		c.OnWon(func(context.Context, *leadership.Term) error { happened.add("won"); return nil })
		run(c, func(ctx context.Context, term *leadership.Term) error {
			happened.add("lead")
			return serve(ctx, term)
		})
		synctest.Wait()
		require.Equal(w, []string{"won", "lead"}, happened.all())
	})
}

// A won callback fails or panics: the callbacks after it are not called, nothing is acknowledged, the takeover-failed
// callbacks are called, and the candidate goes to the back of the queue.
func TestWonCallbackThatFails(t *testing.T) {
	for failure, fail := range map[string]func() error{
		"error": func() error { return errTakeover },
		"panic": func() error { panic("the disk is full") },
	} {
		for name, drive := range drives {
			virtualRun(t, failure+" in "+name, func(w *world) {
				var happened diary
				a, b := w.candidate(w.open(), "a", nil), w.candidate(w.open(), "b", nil)
				a.OnWon(func(context.Context, *leadership.Term) error { happened.add("first"); return nil })
				a.OnWon(func(context.Context, *leadership.Term) error { happened.add("failing"); return fail() })
				a.OnWon(func(context.Context, *leadership.Term) error { happened.add("left out"); return nil })
				var failed error
				a.OnTakeoverFailed(func(err error) { failed = err; happened.add("failed") })
				a.OnTakeoverFailed(func(error) { happened.add("failed too") })
				a.OnNewLeader(func(_ context.Context, leader store.Leader) { happened.add("lost to %s", leader.Value) })
				follower := w.follower(w.open(), nil)
				follower.OnNewLeader(func(_ context.Context, leader leadership.Leader) { happened.add("new leader %s", leader.Value) })
				follower.Start()

				go func() { time.Sleep(time.Nanosecond); b.RunForElection() }() // b's ballot is the second
				drive(a)
				w.at(time.Minute)
				require.Equal(w, []string{"first", "failing", "failed", "failed too"}, happened.all()[:4])
				require.ErrorContains(w, failed, "the disk is full")
				require.ErrorContains(w, failed, "takeover failed")
				if failure == "error" {
					require.ErrorIs(w, failed, errTakeover)
				}
				require.ElementsMatch(w, []string{"new leader b", "lost to b"}, happened.all()[4:])
				require.False(w, a.IsLeader())
				require.True(w, b.IsLeader())
				require.Equal(w, []string{"b", "a"}, w.ballots(), "at the back of the queue")
			})
		}
	}
}

// The takeover-failed callbacks are called if the term ends unacknowledged, for whatever reason and whatever lead returns,
// and only then.
func TestTakeoverFailedCallbacks(t *testing.T) {
	for name, test := range map[string]struct {
		lead   func(ctx context.Context, term *leadership.Term) error
		reason error // nil if it is not called
	}{
		"lead fails before it acknowledges": {func(context.Context, *leadership.Term) error { return errTakeover }, errTakeover},
		"an error of another election": {func(context.Context, *leadership.Term) error {
			return errors.Join(errTakeover, leadership.ErrStopped)
		}, errTakeover},
		"lead fails after it acknowledged": {func(ctx context.Context, term *leadership.Term) error {
			return errors.Join(term.Acknowledge(ctx), errTakeover)
		}, nil},
		"lead returns":    {func(context.Context, *leadership.Term) error { return nil }, leadership.ErrResigned},
		"lead resigns":    {func(_ context.Context, term *leadership.Term) error { term.Resign(); return nil }, leadership.ErrResigned},
		"lead is stopped": {func(ctx context.Context, _ *leadership.Term) error { <-ctx.Done(); return ctx.Err() }, leadership.ErrStopped},
	} {
		virtualRun(t, name, func(w *world) {
			c := w.candidate(w.open(), "a", nil)
			var failed []error
			c.OnTakeoverFailed(func(err error) { failed = append(failed, err) })
			turns := 0
			result := run(c, func(ctx context.Context, term *leadership.Term) error {
				if turns++; turns > 1 {
					return serve(ctx, term)
				}
				return test.lead(ctx, term)
			})
			w.at(time.Minute)
			w.stops(c, result)
			if test.reason == nil {
				require.Empty(w, failed)
				return
			}
			require.Len(w, failed, 1)
			require.ErrorIs(w, failed[0], test.reason)
		})
	}
}

// If the term ends while the candidate takes over, lead is not called. The takeover-failed callbacks run while the
// ballot still stands, and their error says why the term ended.
func TestTakeoverFailsWhereTheCandidateEndsItsTerm(t *testing.T) {
	for how, test := range map[string]struct {
		end    func(w *world, c *leadership.Candidate, term *leadership.Term, cancel context.CancelFunc)
		reason error
		text   string
	}{
		"candidate resigns": {func(w *world, c *leadership.Candidate, term *leadership.Term, _ context.CancelFunc) {
			c.Resign()
		}, leadership.ErrResigned, "resigned"},
		"term resigns": {func(w *world, c *leadership.Candidate, term *leadership.Term, _ context.CancelFunc) {
			term.Resign()
		}, leadership.ErrResigned, "resigned"},
		"resigned by another goroutine": {func(_ *world, c *leadership.Candidate, _ *leadership.Term, _ context.CancelFunc) {
			go func() { c.Resign() }()
		}, leadership.ErrResigned, "resigned"},
		"stopped": {func(_ *world, c *leadership.Candidate, _ *leadership.Term, _ context.CancelFunc) {
			c.Stop()
		}, leadership.ErrStopped, "stopped"},
		"stopped by another goroutine": {func(_ *world, c *leadership.Candidate, _ *leadership.Term, _ context.CancelFunc) {
			go c.Stop()
		}, leadership.ErrStopped, "stopped"},
		"Run's context ends": {func(_ *world, _ *leadership.Candidate, _ *leadership.Term, cancel context.CancelFunc) {
			cancel()
		}, context.Canceled, "stopped: context canceled"},
	} {
		for returned, result := range map[string]func(ctx context.Context) error{
			"nothing":                func(context.Context) error { return nil },
			"its context's error":    func(ctx context.Context) error { return ctx.Err() },
			"its context's cause":    context.Cause,
			"an error of its own":    func(context.Context) error { return errTakeover },
			"the same error wrapped": func(ctx context.Context) error { return errors.Join(errors.New("so"), context.Cause(ctx)) },
		} {
			virtualRun(t, how+", returns "+returned, func(w *world) {
				c := w.candidate(w.open(), "a", nil)
				ctx, cancel := context.WithCancel(background)
				defer cancel()
				var failed []error
				won := 0
				c.OnWon(func(ctx context.Context, term *leadership.Term) error {
					if won++; won > 1 {
						return nil
					}
					test.end(w, c, term, cancel)
					<-ctx.Done()
					return result(ctx)
				})
				c.OnWon(func(ctx context.Context, _ *leadership.Term) error {
					require.NoError(w, ctx.Err(), "called after the term has ended")
					return nil
				})
				c.OnTakeoverFailed(func(err error) {
					require.False(w, c.IsLeader())
					require.Equal(w, []string{"a"}, w.ballots(), "the ballot is kept while it is undone")
					failed = append(failed, err)
				})
				ended := async(func() error {
					return c.Run(ctx, func(ctx context.Context, term *leadership.Term) error {
						require.NoError(w, ctx.Err(), "called with a context that has ended")
						return serve(ctx, term)
					})
				})
				w.at(time.Minute)
				cancel()
				<-ended
				require.Len(w, failed, 1)
				require.ErrorIs(w, failed[0], test.reason)
				if returned == "an error of its own" {
					require.ErrorIs(w, failed[0], errTakeover)
				} else {
					require.EqualError(w, failed[0], test.text)
				}
			})
		}
	}
}

// OnTermEnded is called once for each term of Run and RunForElection, with its cause, after the work has stopped and
// before the ballot is given back.
func TestTermEndedCallback(t *testing.T) {
	for name, test := range map[string]struct {
		end   func(w *world, c *leadership.Candidate, cancel context.CancelFunc)
		cause error
	}{
		"resigned":   {func(_ *world, c *leadership.Candidate, _ context.CancelFunc) { c.Resign() }, leadership.ErrResigned},
		"stopped":    {func(_ *world, c *leadership.Candidate, _ context.CancelFunc) { c.Stop() }, leadership.ErrStopped},
		"context":    {func(_ *world, _ *leadership.Candidate, cancel context.CancelFunc) { cancel() }, leadership.ErrStopped},
		"lease over": {func(w *world, _ *leadership.Candidate, _ context.CancelFunc) { w.stores[1].Faults().Cut() }, leadership.ErrLost},
		"removed":    {func(w *world, _ *leadership.Candidate, _ context.CancelFunc) { w.service.Clear(election) }, leadership.ErrLost},
	} {
		virtualRun(t, name, func(w *world) {
			var happened diary
			c := w.candidate(w.open(), "a", nil)
			ctx, cancel := context.WithCancel(background)
			defer cancel()
			var served *leadership.Term
			c.OnTermEnded(func(term *leadership.Term, cause error) {
				if happened.has("ended") { // a later term
					return
				}
				require.Same(w, served, term)
				require.ErrorIs(w, cause, test.cause)
				require.Equal(w, context.Cause(term.Context()), cause)
				require.False(w, c.IsLeader())
				if name == "resigned" || name == "stopped" || name == "context" {
					require.Equal(w, []string{"a"}, w.ballots(), "the ballot still stands")
				}
				happened.add("ended")
			})
			c.OnTermEnded(func(*leadership.Term, error) { happened.add("ended, too") })
			c.OnTakeoverFailed(func(error) { happened.add("failed") })
			go func() {
				_ = c.Run(ctx, func(ctx context.Context, term *leadership.Term) error {
					served = term
					<-ctx.Done()
					time.Sleep(time.Second)
					happened.add("stopped working")
					return nil
				})
			}()
			w.at(time.Second)
			test.end(w, c, cancel)
			w.at(time.Second + valid)
			w.stores[1].Faults().Heal()
			synctest.Wait()
			require.Equal(w, []string{"stopped working", "failed", "ended", "ended, too"}, happened.all()[:4])
		})
	}
}

// While the callback runs, the session is renewed and no other candidate leads.
func TestTermEndedCallbackKeepsTheBallot(t *testing.T) {
	for name, drive := range drives {
		virtualRun(t, name, func(w *world) {
			a, b := w.candidate(w.open(), "a", nil), w.candidate(w.open(), "b", nil)
			a.OnTermEnded(func(*leadership.Term, error) { time.Sleep(10 * ttl) })
			drive(a)
			synctest.Wait()
			drive(b)
			w.at(time.Second)
			a.Resign()
			w.at(time.Second + 10*ttl - 1)
			require.False(w, a.IsLeader())
			require.False(w, b.IsLeader())
			w.at(time.Second + 10*ttl)
			require.True(w, b.IsLeader())
		})
	}
}

// For a candidate that never led, no end of a term is reported.
func TestTermEndedCallbackIsNotForThoseWhoNeverLed(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "other")
		c := w.candidate(w.open(), "a", nil)
		c.OnTermEnded(func(*leadership.Term, error) { t.Error("it never led") })
		c.RunForElection()
		w.at(ttl)
		halt(c)
	})
}

// If the leader's function or a won callback fails, the term ends with ErrFailed, which wraps the error. The log, the
// hooks, the callbacks and the status say so; it is no resignation.
func TestTermThatFails(t *testing.T) {
	for name, test := range map[string]struct {
		won  func() error
		lead func(ctx context.Context, term *leadership.Term) error
		err  error // nil if it is one that can't be matched
		text string
	}{
		"lead": {nil, func(ctx context.Context, term *leadership.Term) error {
			return errors.Join(term.Acknowledge(ctx), errTakeover)
		}, errTakeover, "the leader's function failed: the disk is full"},
		"won callback":            {func() error { return errTakeover }, serve, errTakeover, "the leader's function failed: takeover failed: the disk is full"},
		"won callback that exits": {func() error { panic("boom") }, serve, nil, "the leader's function failed: takeover failed: panic in a callback: boom"},
	} {
		virtualRun(t, name, func(w *world) {
			var log journal
			var mu sync.Mutex
			var causes, reported []error // guarded by mu
			keep := func(list *[]error) func(error) {
				return func(err error) {
					mu.Lock()
					defer mu.Unlock()
					*list = append(*list, err)
				}
			}
			c := w.candidate(w.open(), "a", &leadership.Options{Logger: log.logger(), Hooks: &leadership.Hooks{
				TermEnded: func(_ string, _ uint64, cause error) { keep(&causes)(cause) },
				Error:     func(_ string, err error, _ time.Duration) { keep(&reported)(err) },
			}})
			failed := true
			c.OnWon(func(context.Context, *leadership.Term) error {
				if failed && test.won != nil {
					return test.won()
				}
				return nil
			})
			c.OnTakeoverFailed(keep(&causes))
			c.OnTermEnded(func(term *leadership.Term, cause error) {
				require.Equal(w, context.Cause(term.Context()), cause)
				keep(&causes)(cause)
			})
			result := run(c, func(ctx context.Context, term *leadership.Term) error {
				if failed {
					return test.lead(ctx, term)
				}
				return serve(ctx, term)
			})
			w.at(time.Millisecond)
			failed = false
			want := 2
			if name != "lead" {
				want = 3
			}
			require.Len(w, causes, want)
			require.Len(w, reported, 1)
			for _, err := range append(causes, reported[0], c.Status().LastError) {
				require.ErrorIs(w, err, leadership.ErrFailed)
				require.NotErrorIs(w, err, leadership.ErrResigned)
				require.True(w, strings.HasPrefix(err.Error(), test.text), "%v", err)
				if test.err != nil {
					require.ErrorIs(w, err, test.err)
				}
			}
			require.Contains(w, log.String(), `msg="leadership ended" election=database/primary token=2 cause="the leader's function failed: `)
			w.until(c.IsLeader)
			w.stops(c, result)
		})
	}
}

// unnoticed elects a candidate whose term is over without anything that has noticed it.
func unnoticed(w *world, opts *leadership.Options, drive func(c *leadership.Candidate), over func(w *world)) *leadership.Candidate {
	w.Helper()
	frozen := make(chan struct{})
	c := w.candidate(changing(w.open(), func(b *fakeBallot) { b.frozen = frozen }), "a", opts)
	w.Cleanup(func() { close(frozen) })
	drive(c)
	w.at(time.Second)
	require.True(w, c.IsLeader())
	over(w)
	return c
}

// A term that was over before anything noticed it was lost, whatever ends it then.
func TestTermThatWasOverUnnoticed(t *testing.T) {
	for how, over := range map[string]func(w *world){
		"lease": func(w *world) {
			w.stores[1].Faults().Cut()
			w.at(2 * ttl)
			w.stores[1].Faults().Heal()
		},
		"ballot": func(w *world) { w.service.Clear(election); synctest.Wait() },
	} {
		for what, end := range map[string]func(c *leadership.Candidate, fail func()){
			"Resign":     func(c *leadership.Candidate, _ func()) { c.Resign() },
			"Stop":       func(c *leadership.Candidate, _ func()) { c.Stop() },
			"lead fails": func(_ *leadership.Candidate, fail func()) { fail() },
		} {
			virtualRun(t, what+" after the "+how, func(w *world) {
				var causes []error
				failing := make(chan struct{})
				c := unnoticed(w, &leadership.Options{Hooks: &leadership.Hooks{
					TermEnded: func(_ string, _ uint64, cause error) { causes = append(causes, cause) },
				}}, func(c *leadership.Candidate) {
					run(c, func(ctx context.Context, _ *leadership.Term) error {
						select {
						case <-ctx.Done():
							return nil
						case <-failing:
							return errTakeover
						}
					})
				}, over)
				end(c, func() { close(failing) })
				synctest.Wait()
				require.Len(w, causes, 1)
				require.ErrorIs(w, causes[0], leadership.ErrLost)
				for _, err := range []error{leadership.ErrResigned, leadership.ErrStopped, leadership.ErrFailed} {
					require.NotErrorIs(w, causes[0], err)
				}
			})
		}
	}
}

// The takeover-failed callbacks are not called if followers might have been told: the outcome of an acknowledgement is
// not known, or one is under way. They are called if the store has not written it.
func TestTakeoverFailedIfFollowersMightKnow(t *testing.T) {
	written := func(b *fakeBallot, ctx context.Context, value string) {
		_, err := b.Ballot.Acknowledge(context.WithoutCancel(ctx), value)
		if err != nil {
			panic(err)
		}
	}
	for name, test := range map[string]struct {
		acknowledge func(b *fakeBallot, ctx context.Context, value string) (store.Leader, error)
		lead        func(ctx context.Context, term *leadership.Term) error
		called      bool
	}{
		"its answer is lost": {func(b *fakeBallot, ctx context.Context, value string) (store.Leader, error) {
			written(b, ctx, value)
			return store.Leader{}, store.ErrUnknownOutcome
		}, nil, false},
		"its answer is lost, and then the service": {func(b *fakeBallot, ctx context.Context, value string) (store.Leader, error) {
			b.acknowledge = func(context.Context, string) (store.Leader, error) { return store.Leader{}, store.ErrUnavailable }
			written(b, ctx, value)
			return store.Leader{}, store.ErrUnknownOutcome
		}, nil, false},
		"its context ends": {func(b *fakeBallot, ctx context.Context, value string) (store.Leader, error) {
			written(b, ctx, value)
			<-ctx.Done()
			return store.Leader{}, ctx.Err()
		}, nil, false},
		"it goes on": {func(b *fakeBallot, ctx context.Context, value string) (store.Leader, error) {
			written(b, ctx, value)
			time.Sleep(time.Second)
			return store.Leader{}, store.ErrUnknownOutcome
		}, func(ctx context.Context, term *leadership.Term) error {
			go func() { _ = term.Acknowledge(ctx) }()
			synctest.Wait()
			return errTakeover
		}, false},
		"its context had ended": {func(_ *fakeBallot, ctx context.Context, _ string) (store.Leader, error) {
			return store.Leader{}, ctx.Err()
		}, func(ctx context.Context, term *leadership.Term) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return term.Acknowledge(ctx)
		}, true},
		"it was not sent": {func(_ *fakeBallot, ctx context.Context, _ string) (store.Leader, error) {
			<-ctx.Done()
			return store.Leader{}, store.ErrUnavailable
		}, nil, true},
		"it is refused": {func(*fakeBallot, context.Context, string) (store.Leader, error) {
			return store.Leader{}, store.ErrDenied
		}, nil, true},
		"the ballot is lost": {func(*fakeBallot, context.Context, string) (store.Leader, error) {
			return store.Leader{}, store.ErrLost
		}, nil, true},
	} {
		virtualRun(t, name, func(w *world) {
			c := w.candidate(changing(w.open(), func(b *fakeBallot) {
				b.acknowledge = func(ctx context.Context, value string) (store.Leader, error) { return test.acknowledge(b, ctx, value) }
			}), "a", nil)
			called, ended := 0, 0
			c.OnTakeoverFailed(func(error) { called++ })
			c.OnTermEnded(func(*leadership.Term, error) { ended++ })
			result := run(c, func(ctx context.Context, term *leadership.Term) error {
				defer c.Stop()
				if test.lead != nil {
					return test.lead(ctx, term)
				}
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				err := term.Acknowledge(ctx)
				require.Error(w, err)
				return err
			})
			require.NoError(w, <-result)
			require.Equal(w, test.called, called == 1)
			require.Equal(w, 1, ended)
		})
	}
}
