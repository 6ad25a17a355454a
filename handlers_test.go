package leadership_test

import (
	"bytes"
	"context"
	"fmt"
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
	"github.com/stretchr/testify/require"
)

// The logger receives changes at level Info, trouble at Warn, the rest at Debug, with the election's name.
func TestLogger(t *testing.T) {
	virtual(t, func(w *world) {
		var out bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
			Level: slog.LevelDebug,
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey || a.Key == "token" || a.Key == "revision" {
					return slog.Attr{}
				}
				return a
			},
		}))
		st := w.open()
		c := w.candidate(st, "a", &leadership.CandidateOptions{Logger: logger})
		f := w.follower(st, &leadership.CandidateOptions{Logger: logger})
		term := w.campaign(c)
		require.NoError(w, term.Acknowledge(background))
		require.NoError(w, term.Withdraw(background))
		w.lead(w.open(), "other")
		f.Start()
		synctest.Wait()
		require.Equal(w, `level=DEBUG msg=standing election=database/primary
level=INFO msg=elected election=database/primary
level=INFO msg=acknowledged election=database/primary
level=INFO msg="leadership ended" election=database/primary cause=resigned
level=DEBUG msg="ballot withdrawn" election=database/primary after=0s
level=INFO msg="leader changed" election=database/primary leader=other
`, out.String())

		out.Reset()
		st.Faults().Cut()
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		_, err := c.Campaign(ctx)
		require.Error(w, err)
		require.Empty(w, out.String(), "an outage is the store's business")
	})
}

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

// A log handler or Events that hangs delays what is told after it, and nothing else: the leader's function is called,
// renewals go on, the ballot is withdrawn and another candidate leads, followers hear of it, Resign and Stop return, and
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
		opts := telling(&happened)
		opts.Logger = handledBy(func(message string) { happened.add("%s", message) }).Logger
		c := w.candidate(w.open(), "a", opts)
		for round := range 100 {
			happened.clear()
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
				"standing", "ballot cast", "elected", "term began", "leadership ended", "term ended: resigned", "ballot withdrawn", "ballot withdrawn",
			}, happened.all(), "round %d", round)
		}
	})
}

// Without a logger, what a candidate and a follower do is found in the default log: a takeover that fails again and
// again, and a service that does not answer.
func TestDefaultLog(t *testing.T) {
	old := slog.Default()
	defer log.SetOutput(os.Stderr)
	defer slog.SetDefault(old)
	virtual(t, func(w *world) {
		var out journal
		slog.SetDefault(out.logger())
		c := w.candidate(w.open(), "a", nil)
		run(c, func(context.Context, *leadership.Term) error { return errTakeover })
		f := w.follower(&fakeStore{Store: w.open(), observe: failing(1000)}, nil)
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

// Events and a log handler that exit each time: the terms go on, Events is called again, and the log reports each failure.
func TestEventsThatExit(t *testing.T) {
	for exit, how := range exits {
		virtualRun(t, exit, func(w *world) {
			var happened diary
			leave := func(kind string) { happened.add("%s", kind); how.leave() }
			var log journal
			opts := &leadership.CandidateOptions{Logger: log.logger(), Events: func(e leadership.Event) { leave(e.Kind.String()) }}
			st := w.open()
			f := w.follower(&fakeStore{Store: w.open(), observe: failing(2)}, opts)
			f.Start()
			c := w.candidate(failingFirst(st), "a", opts)
			run(c, leadership.Lead)
			for range 2 {
				w.until(c.IsLeader)
				synctest.Wait()
				st.Faults().Cut()
				w.until(func() bool { return termOf(c).Remaining() < 2*time.Second })
				st.Faults().Heal()
				w.at(w.now() + ttl)
				require.True(w, c.IsLeader())
				require.NoError(w, w.observer.RequestResignation(background, election, termOf(c).Token()))
				synctest.Wait()
			}
			w.until(c.IsLeader)
			halt(c)
			require.NoError(w, f.Err())
			for kind := leadership.BallotCast; kind <= leadership.AttemptFailed; kind++ {
				require.True(w, happened.has(kind.String()), "%v", kind)
				require.True(w, strings.Contains(strings.ReplaceAll(log.String(), `"`, ""), fmt.Sprintf("event=%v error=", kind)), "%v", kind)
			}
			require.Equal(w, 2, happened.count(leadership.RenewalOverdue.String()), "it is called again")
			require.Contains(w, log.String(), how.says)
		})
		virtualRun(t, exit+" of the log handler", func(w *world) {
			st := w.open()
			c, f := w.candidate(st, "a", handledBy(func(string) { how.leave() })), w.follower(st, handledBy(func(string) { how.leave() }))
			run(c, leadership.Lead)
			w.until(c.IsLeader)
			leader, err := f.Wait(background)
			require.NoError(w, err)
			require.Equal(w, "a", leader.Value)
			c.Resign()
			w.until(c.IsLeader)
			halt(c)
			halt(f)
			require.Empty(w, w.ballots())
		})
	}
}
