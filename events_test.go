package leadership_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
)

// keeping returns hooks that write everything into a diary, with the number of the term for its token.
func keeping(w *world, d *diary) hooks {
	terms := map[uint64]int{}
	name := func(election_ string, token uint64) int {
		d.mu.Lock()
		defer d.mu.Unlock()
		require.Equal(w, election, election_)
		if terms[token] == 0 {
			terms[token] = len(terms) + 1
		}
		return terms[token]
	}
	now := func() time.Duration { return w.now().Truncate(10 * time.Millisecond) }
	return hooks{
		TermBegan: func(e string, token uint64) { d.add("%v won %d", now(), name(e, token)) },
		TermEnded: func(e string, token uint64, cause error) {
			for _, wanted := range []error{leadership.ErrResigned, leadership.ErrStopped} {
				if errors.Is(cause, wanted) {
					cause = wanted
				}
			}
			d.add("%v lost %d: %v", now(), name(e, token), cause)
		},
		Acknowledged: func(e string, token uint64, leader leadership.Leader) {
			require.Positive(w, leader.Revision)
			d.add("%v acknowledged %d %s", now(), name(e, token), leader.Value)
		},
		InJeopardy: func(e string, token uint64, remaining time.Duration) {
			require.Positive(w, remaining)
			require.Less(w, remaining, valid/3)
			d.add("in jeopardy %d", name(e, token))
		},
		LeaderChanged: func(e string, leader leadership.Leader) { d.add("%v leader %q", now(), leader.Value) },
		Error:         func(_ string, err error, _ time.Duration) { d.add("%v error %v", now(), err) },
	}
}

func TestHooksOfACandidate(t *testing.T) {
	virtual(t, func(w *world) {
		var happened diary
		st := w.open()
		c := w.candidate(st, "a", &leadership.CandidateOptions{Events: keeping(w, &happened).tell})
		run(c, leadership.Lead)
		w.at(renew)
		st.Faults().Delay(500 * time.Millisecond)
		w.at(2*renew + time.Second)
		st.Faults().Delay(0)
		c.Resign()
		w.until(c.IsLeader)
		halt(c)
		require.Equal(w, []string{
			"0s won 1", "0s acknowledged 1 a",
			"7s lost 1: resigned",
			"7s won 2", "7s acknowledged 2 a",
			"7s lost 2: stopped",
		}, happened.all())
	})
}

// Any hook may be nil, and so may all options.
func TestWithoutHooks(t *testing.T) {
	for _, opts := range []*leadership.CandidateOptions{nil, {}, {Events: hooks{}.tell}} {
		virtual(t, func(w *world) {
			f := w.follower(&fakeStore{Store: w.open(), observe: failing(3)}, opts)
			f.Start()
			st := w.open()
			c := w.candidate(changing(st, func(b *fakeBallot) {
				b.acknowledge = func(ctx context.Context, value string) (store.Leader, error) {
					b.acknowledge = nil
					return store.Leader{}, store.ErrUnknownOutcome
				}
			}), "a", opts)
			run(c, leadership.Lead)
			w.at(2 * renew)
			st.Faults().Cut()
			w.at(2*renew + ttl)
			st.Faults().Heal()
			w.at(5 * ttl)
			require.True(w, c.IsLeader())
			leader, led := f.Leader()
			require.True(w, led)
			require.Equal(w, "a", leader.Value)
		})
	}
}

// failing is Observe of a store that fails some times and then reports the leader "a".
func failing(times int) func(context.Context, string, *store.Known) (store.Known, error) {
	return func(ctx context.Context, _ string, prev *store.Known) (store.Known, error) {
		if times--; times >= 0 {
			return store.Known{}, store.ErrUnavailable
		}
		if prev != nil {
			<-ctx.Done()
			return store.Known{}, ctx.Err()
		}
		return store.Known{Leader: store.Leader{Value: "a", Revision: 1}, AsOf: time.Now()}, nil
	}
}

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

// The hooks of a term are called in order, also if the term ends while the first of them runs. IsLeader does not wait
// for them.
func TestTermEndedComesAfterTermBegan(t *testing.T) {
	virtual(t, func(w *world) {
		var happened diary
		c := w.candidate(w.open(), "a", &leadership.CandidateOptions{Events: hooks{
			TermBegan: func(string, uint64) {
				happened.add("begins")
				time.Sleep(ttl)
				happened.add("began")
			},
			TermEnded: func(string, uint64, error) { happened.add("ended") },
		}.tell})
		run(c, leadership.Lead)
		w.at(time.Second)
		require.True(w, c.IsLeader())
		c.Stop()
		require.False(w, c.IsLeader())
		require.Equal(w, time.Second, w.now())
		<-c.Done()
		require.Equal(w, ttl, w.now())
		require.Equal(w, []string{"begins", "began", "ended"}, happened.all())
	})
}

// A slow hook keeps no candidate from its next term, whose hooks come after it.
func TestTermEndedComesBeforeTheNextTerm(t *testing.T) {
	virtual(t, func(w *world) {
		var happened diary
		c := w.candidate(w.open(), "a", &leadership.CandidateOptions{Events: hooks{
			TermBegan: func(string, uint64) { happened.add("began") },
			TermEnded: func(string, uint64, error) { time.Sleep(ttl); happened.add("ended") },
		}.tell})
		run(c, leadership.Lead)
		synctest.Wait()
		first := termOf(c)
		c.Resign()
		w.until(c.IsLeader)
		require.Greater(w, termOf(c).Token(), first.Token())
		require.Equal(w, []string{"began"}, happened.all())
		w.at(2 * ttl)
		require.Equal(w, []string{"began", "ended", "began"}, happened.all())
	})
}

// InJeopardy is called when renewals are overdue, once until the next renewal.
func TestInJeopardy(t *testing.T) {
	virtual(t, func(w *world) {
		var happened diary
		st := w.open()
		c := w.candidate(st, "a", &leadership.CandidateOptions{Events: keeping(w, &happened).tell})
		run(c, leadership.Lead)
		synctest.Wait()
		require.Len(w, happened.all(), 2)
		jeopardy := func(from time.Duration) {
			st.Faults().Cut()
			w.at(from + valid*2/3)
			require.False(w, happened.has("in jeopardy 1"))
			w.at(from + valid - 10*time.Millisecond)
			require.Equal(w, []string{"in jeopardy 1"}, happened.all())
		}
		happened.entries = nil
		jeopardy(0)
		st.Faults().Heal()
		w.at(valid)
		require.True(w, c.IsLeader())
		require.Equal(w, []string{"in jeopardy 1"}, happened.all())
		happened.entries = nil
		jeopardy(renew) // the renewal was sent at 3 s
		w.at(renew + valid)
		require.Equal(w, []string{
			"in jeopardy 1", "11s lost 1: ballot lost: the session was not renewed before its deadline",
		}, happened.all())
	})
}

// Over a slow link each renewal comes when less than a third of the lease is left: InJeopardy is not called. When
// renewals stop it is called, before the lease ends.
func TestSlowRenewalsAreNotOverdue(t *testing.T) {
	virtual(t, func(w *world) {
		var log journal
		var renewals, jeopardies int
		st, err := memory.Open(w.service, &memory.Config{TTL: ttl, Renewed: func(time.Duration) { renewals++ }})
		require.NoError(w, err)
		w.Cleanup(func() { require.NoError(w, st.Close()) })
		st.Faults().Delay(renew / 2) // the lease of 8 s is renewed when 1.4 s are left: after 0.6 s and two round trips of 3 s
		c := w.candidate(st, "a", &leadership.CandidateOptions{Logger: log.logger(), Events: hooks{
			InJeopardy: func(string, uint64, time.Duration) { jeopardies++ },
		}.tell})
		run(c, leadership.Lead)
		w.at(10 * ttl)
		require.True(w, c.IsLeader())
		require.Greater(w, renewals, 30)
		require.Zero(w, jeopardies)
		require.NotContains(w, log.String(), "renewals are overdue")
		st.Faults().Cut()
		w.until(func() bool { return !c.IsLeader() })
		require.Equal(w, 1, jeopardies)
		require.Contains(w, log.String(), "renewals are overdue")
	})
}

// A renewal comes at the moment when it is overdue. If the hook is called, less than a third of the lease was left.
func TestRenewedWhenItIsOverdue(t *testing.T) {
	virtual(t, func(w *world) {
		lease := store.NewLease()
		lease.Renew(store.Now(), valid)
		var calls, wrong atomic.Int32
		c := w.candidate(changing(w.open(), func(b *fakeBallot) { b.lease = lease }), "a", &leadership.CandidateOptions{
			Events: hooks{InJeopardy: func(_ string, _ uint64, remaining time.Duration) {
				calls.Add(1)
				if remaining >= valid/3 {
					wrong.Add(1)
				}
			}}.tell,
		})
		w.campaign(c)
		for range often(100) {
			<-lease.Last().Overdue
			lease.Renew(store.Now(), valid)
			synctest.Wait()
		}
		require.True(w, c.IsLeader())
		require.Zero(w, wrong.Load(), "of %d calls", calls.Load())
	})
}

// While a hook hangs, at most 100 events wait for it.
func TestReportsWhileAHookHangsAreBounded(t *testing.T) {
	virtual(t, func(w *world) {
		lease := store.NewLease()
		lease.Renew(store.Now(), valid)
		var happened diary
		resumed := make(chan struct{})
		c := w.candidate(changing(w.open(), func(b *fakeBallot) { b.lease = lease }), "a", &leadership.CandidateOptions{
			Events: hooks{InJeopardy: func(string, uint64, time.Duration) {
				happened.add("in jeopardy")
				<-resumed
			}}.tell,
		})
		require.NoError(w, w.campaign(c).Acknowledge(background))
		for range 300 {
			<-lease.Last().Overdue
			time.Sleep(time.Millisecond)
			lease.Renew(store.Now(), valid)
			synctest.Wait()
		}
		require.Equal(w, []string{"in jeopardy"}, happened.all())
		close(resumed)
		synctest.Wait()
		require.Len(w, happened.all(), 1+100)
	})
}

// TestNothingIsToldAfterDone: Done waits for the line about the end of a term, and for the hook of an acknowledgement
// whose answer comes after the end.
func TestNothingIsToldAfterDone(t *testing.T) {
	virtualRun(t, "log", func(w *world) {
		released := make(chan struct{})
		c := w.candidate(w.open(), "a", handledBy(func(message string) {
			if message == "leadership ended" {
				<-released
			}
		}))
		term := w.campaign(c)
		go c.Resign()
		synctest.Wait()
		require.False(w, c.IsLeader())
		require.NoError(w, term.Withdraw(background))
		c.Stop()
		require.False(w, isDone(c), "its last line is not written yet")
		close(released)
		require.True(w, isDone(c))
	})
	virtualRun(t, "Acknowledged", func(w *world) {
		released := make(chan struct{})
		told := false
		c := w.candidate(changing(w.open(), func(b *fakeBallot) {
			b.acknowledge = func(context.Context, string) (leadership.Leader, error) {
				<-released
				return leadership.Leader{Value: "a", Revision: 1}, nil
			}
		}), "a", &leadership.CandidateOptions{Events: hooks{
			Acknowledged: func(string, uint64, leadership.Leader) { told = true },
		}.tell})
		term := w.campaign(c)
		acknowledged := async(func() error { return term.Acknowledge(background) })
		synctest.Wait()
		require.NoError(w, term.Withdraw(background))
		c.Stop()
		require.False(w, isDone(c), "a call of Acknowledge goes on")
		close(released)
		<-c.Done()
		require.True(w, told)
		require.NoError(w, <-acknowledged)
		require.ErrorIs(w, term.Acknowledge(background), leadership.ErrNotElected, "after Done nothing is sent or told")
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
