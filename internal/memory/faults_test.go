package memory_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// traced collects what the service reports to its trace.
type traced struct {
	mu     sync.Mutex
	events []memory.Event
}

func trace(service *memory.Service) *traced {
	tr := &traced{}
	service.Trace(func(e memory.Event) {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.events = append(tr.events, e)
	})
	return tr
}

func (tr *traced) count(kind memory.Kind) (n int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, e := range tr.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// fates decides the outcomes of a store's next requests, one after the other. Requests that are under way do not count.
func fates(st *memory.Store, list ...memory.Fate) {
	synctest.Wait()
	var mu sync.Mutex
	st.Faults().Decide(func() (f memory.Fate) {
		mu.Lock()
		defer mu.Unlock()
		if len(list) > 0 {
			f, list = list[0], list[1:]
		}
		return f
	})
}

func TestFates(t *testing.T) {
	for name, c := range map[string]struct {
		fate    memory.Fate
		stands  []string // right after the first answer
		want    error    // of a caller who does not wait for a second one
		carried int      // how many times the acknowledgement is carried out
	}{
		"passes":  {memory.Fate{}, []string{"v"}, nil, 1},
		"twice":   {memory.Fate{Twice: true}, []string{"v"}, nil, 2},
		"lost":    {memory.Fate{Lost: true}, []string{}, store.ErrUnknownOutcome, 0},
		"late":    {memory.Fate{Late: time.Second}, []string{}, store.ErrUnknownOutcome, 1},
		"refused": {memory.Fate{Err: store.ErrDenied}, []string{}, store.ErrDenied, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service, a, b := pair(t)
				fates(a, c.fate)
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				first, err := a.Cast(ctx, "x", "v")
				require.ErrorIs(t, err, c.want)
				require.Equal(t, c.stands, standing(t, b))
				time.Sleep(2 * time.Second)

				ballot := stand(t, a, "w")
				if first != nil {
					service.Delete("x", first.Token())
				}
				require.NoError(t, ballot.Wait(t.Context()))
				tr := trace(service)
				fates(a, c.fate)
				_, err = ballot.Acknowledge(t.Context(), "w")
				require.ErrorIs(t, err, c.want)
				time.Sleep(2 * time.Second)
				require.Equal(t, c.carried, tr.count(memory.Led))
			})
		})
	}
}

// TestTrace reports rare events.
func TestTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service, a, b := pair(t)
		tr := trace(service)
		lead(t, a, "a")
		stand(t, a, "a")
		last := stand(t, b, "b")
		a.Faults().Cut()
		time.Sleep(2*ttl + 10*time.Millisecond) // apart from the resyncs, which have a fate, too
		require.Equal(t, 1, tr.count(memory.LeaderExpired))
		require.Equal(t, 1, tr.count(memory.WentTogether))
		require.Equal(t, 2, tr.count(memory.Led))

		fates(b, memory.Fate{Late: time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := b.Cast(ctx, "x", "late")
		require.Error(t, err)
		time.Sleep(2 * time.Second)
		require.Equal(t, 1, tr.count(memory.EnterVoid))
		b.Faults().LoseReplies()
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = b.Cast(ctx, "x", "found")
		require.Error(t, err)
		b.Faults().Heal()
		time.Sleep(time.Second)
		require.Equal(t, 1, tr.count(memory.VoidFound))

		require.NoError(t, last.Wait(t.Context()))
		b.Faults().Delay(time.Second)
		refused := start(func() (store.Leader, error) { return last.Acknowledge(t.Context(), "b") })
		service.Delete("x", last.Token())
		<-refused.done
		require.ErrorIs(t, refused.err, store.ErrLost)

		b.Faults().Delay(0)
		ballot := stand(t, b, "b")
		b.Faults().Delay(time.Second)
		withdrawn := startErr(func() error { return ballot.Withdraw(t.Context()) })
		time.Sleep(1500 * time.Millisecond)
		b.Faults().Expire()
		require.False(t, withdrawn.returned())
		<-withdrawn.done
		require.Equal(t, 1, tr.count(memory.EndedMeanwhile))

		b.Faults().Delay(0)
		stand(t, b, "b")
		b.Faults().DelayReplies(ttl)
		time.Sleep(3 * ttl)
		require.Positive(t, tr.count(memory.ConfirmedLate))
		b.Faults().DelayReplies(0)
	})
}

// TestAcknowledgementRefused: the request is under way when the ballot is removed, and its store does not learn that.
func TestAcknowledgementRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service, a, _ := pair(t)
		tr := trace(service)
		ballot := stand(t, a, "a")
		require.NoError(t, ballot.Wait(t.Context()))
		synctest.Wait() // it is watched
		a.Faults().Stall()
		service.Delete("x", ballot.Token())
		_, err := ballot.Acknowledge(t.Context(), "a")
		require.ErrorIs(t, err, store.ErrLost)
		require.Equal(t, 1, tr.count(memory.AcknowledgementRefused))
	})
}

// TestMute: watches fall silent after they were set, and the engine finds that.
func TestMute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		first := stand(t, a, "a")
		next := wait(t.Context(), stand(t, b, "b"))
		require.False(t, next.returned())
		b.Faults().Mute()
		require.NoError(t, first.Withdraw(t.Context()))
		require.False(t, next.returned())
		time.Sleep(ttl)
		require.True(t, next.returned())
	})
}

// TestLagAndDouble: notifications, and nothing else, come late and twice.
func TestLagAndDouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		b.Faults().Double()
		first := stand(t, a, "a")
		next := wait(t.Context(), stand(t, b, "b"))
		require.False(t, next.returned())
		b.Faults().Lag(time.Second)
		require.NoError(t, first.Withdraw(t.Context()))
		require.Equal(t, []string{"b"}, standing(t, b))
		time.Sleep(time.Second - 1)
		require.False(t, next.returned())
		time.Sleep(time.Nanosecond)
		require.True(t, next.returned())
	})
}

// TestDelayExpiry: the service keeps the session longer than the TTL.
func TestDelayExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		stand(t, a, "a")
		a.Faults().DelayExpiry(ttl)
		time.Sleep(renewal + time.Millisecond)
		a.Faults().Cut()
		time.Sleep(2*ttl - 2*time.Millisecond)
		require.Len(t, standing(t, b), 1)
		time.Sleep(2 * time.Millisecond)
		require.Empty(t, standing(t, b))
	})
}

// TestDelete removes one ballot.
func TestDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service, a, b := pair(t)
		first, second := stand(t, a, "a"), stand(t, b, "b")
		service.Delete("x", first.Token()+100)
		service.Delete("x", second.Token())
		require.True(t, isLost(second))
		require.False(t, isLost(first))
		require.Equal(t, []string{"a"}, standing(t, a))
	})
}

// TestExpireEndsTheSessionAtOnce: no promise covers this. The lease goes on until the store learns of it.
func TestExpireEndsTheSessionAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		ballot := lead(t, a, "a")
		next := wait(t.Context(), stand(t, b, "b"))
		require.False(t, next.returned())
		a.Faults().Cut() // no news
		a.Faults().Expire()
		require.True(t, next.returned())
		require.Zero(t, leader(t, b))
		require.True(t, holds(ballot), "the store can't know")
		a.Faults().Expire() // again, with no session left
		a.Faults().Heal()
		require.True(t, isLost(ballot))
	})
}

// TestRequestsCountsWhatIsSent, renewals left out.
func TestRequestsCountsWhatIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		time.Sleep(10*ttl + renewal/2) // apart from the resyncs
		require.Zero(t, a.Faults().Requests())
		count := func(want int, do func()) {
			t.Helper()
			before := a.Faults().Requests()
			do()
			synctest.Wait()
			require.Equal(t, want, a.Faults().Requests()-before)
		}
		var ballot store.Ballot
		count(2, func() { ballot = stand(t, a, "a") }) // and a watch
		count(0, func() { require.NoError(t, ballot.Wait(t.Context())) })
		count(1, func() { _, _ = ballot.Acknowledge(t.Context(), "a") })
		count(1, func() { leader(t, a) })
		count(1, func() { standing(t, a) })
		count(0, func() { a.Worked(); ballot.Lease().Remaining() })
		count(8, func() { time.Sleep(ttl) }) // one resync and one look at a head for each quarter of the TTL
		count(1, func() { require.NoError(t, ballot.Withdraw(t.Context())) })
		require.Zero(t, b.Faults().Requests())
	})
}
