package leadership_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// keeping returns hooks that write everything into a diary, with the number of the term for its token.
func keeping(w *world, d *diary) *leadership.Hooks {
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
	return &leadership.Hooks{
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
		c := w.candidate(st, "a", &leadership.Options{Hooks: keeping(w, &happened)})
		c.RunForElection()
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

// A hook that hangs delays the events that it reports, but not the end of the term.
func TestHooksThatHang(t *testing.T) {
	for name, hooks := range map[string]func(hang func()) *leadership.Hooks{
		"InJeopardy": func(hang func()) *leadership.Hooks {
			return &leadership.Hooks{InJeopardy: func(string, uint64, time.Duration) { hang() }}
		},
		"Acknowledged": func(hang func()) *leadership.Hooks {
			return &leadership.Hooks{Acknowledged: func(string, uint64, leadership.Leader) { hang() }}
		},
	} {
		virtualRun(t, name, func(w *world) {
			resumed := make(chan struct{})
			st := w.open()
			c := w.candidate(st, "a", &leadership.Options{Hooks: hooks(func() { <-resumed })})
			elected, _ := c.RunForElection()
			w.at(renew)
			require.False(w, <-elected)
			require.True(w, <-elected)
			st.Faults().Cut()
			require.False(w, <-elected)
			require.Equal(w, renew+valid, w.now())
			require.False(w, c.IsLeader())
			close(resumed)
		})
	}
}

// Any hook may be nil, and so may all options.
func TestWithoutHooks(t *testing.T) {
	for _, opts := range []*leadership.Options{nil, {}, {Hooks: &leadership.Hooks{}}} {
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
			c.RunForElection()
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
		c := w.candidate(st, "a", &leadership.Options{Logger: logger})
		f := w.follower(st, &leadership.Options{Logger: logger})
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
level=DEBUG msg="ballot given back" election=database/primary after=0s
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
		c := w.candidate(w.open(), "a", &leadership.Options{Hooks: &leadership.Hooks{
			TermBegan: func(string, uint64) {
				happened.add("begins")
				time.Sleep(ttl)
				happened.add("began")
			},
			TermEnded: func(string, uint64, error) { happened.add("ended") },
		}})
		c.RunForElection()
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

// A candidate under Run does not stand again before the hooks of its last term have returned.
func TestTermEndedComesBeforeTheNextTerm(t *testing.T) {
	virtual(t, func(w *world) {
		resumed := make(chan struct{})
		c := w.candidate(w.open(), "a", &leadership.Options{Hooks: &leadership.Hooks{
			TermEnded: func(string, uint64, error) { <-resumed },
		}})
		c.RunForElection()
		synctest.Wait()
		c.Resign()
		w.at(ttl)
		require.Empty(w, w.ballots())
		close(resumed)
		w.until(c.IsLeader)
	})
}
