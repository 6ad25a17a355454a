package serve

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// While many queues are read round by round, each has its turn, and that of an election whose leader has changed is
// next.
func TestOrderOfReads(t *testing.T) {
	virtualWith(t, time.Hour, func(w *world) {
		st := w.open()
		first := w.lead(st, "e", "db1")
		for i := range 279 {
			w.lead(st, fmt.Sprint("e", i), "x")
		}
		w.start(Config{})
		defer w.look()()
		pass(10 * time.Second)
		for range 4 {
			pass(2 * time.Second)
			w.mu.Lock()
			for _, e := range w.elections {
				require.Less(t, time.Since(e.tried), 7600*time.Millisecond, "a round takes 5.6 s")
			}
			w.mu.Unlock()
		}
		for range 5 {
			require.NoError(t, first.Withdraw(w.Context()))
			first = w.lead(st, "e", "db1")
			pass(3 * readPace)
			w.mu.Lock()
			require.False(t, w.followed("e").Queue.Behind)
			w.mu.Unlock()
		}
	})
}

// A leader that changes while the queue is read might be none of what was read.
func TestChangeDuringARead(t *testing.T) {
	virtual(t, func(w *world) {
		first := w.lead(w.open(), "e", "db1")
		w.start(Config{})
		pass(time.Minute)
		w.store.during = func() {
			w.store.during = nil
			require.NoError(t, first.Withdraw(w.Context()))
			time.Sleep(time.Millisecond)
		}
		w.mu.Lock()
		w.asked = time.Now()
		w.mu.Unlock()
		w.wakeUp()
		pass(readPace / 2)
		w.mu.Lock()
		require.True(t, w.followed("e").Queue.Behind)
		require.Len(t, w.followed("e").Queue.Ballots, 1)
		w.mu.Unlock()
		pass(2 * readPace)
		w.mu.Lock()
		require.False(t, w.followed("e").Queue.Behind)
		require.Empty(t, w.followed("e").Queue.Ballots)
		w.mu.Unlock()
	})
}

// An election that is forgotten while its queue is read has no series afterwards.
func TestForgottenDuringARead(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "e", "db1")
		w.start(Config{Elections: []string{"e"}})
		w.store.during = func() {
			w.store.during = nil
			w.mu.Lock()
			defer w.mu.Unlock()
			w.followed("e").follower.Stop()
			delete(w.elections, "e")
			w.metrics.Remove("e")
		}
		pass(time.Minute)
		w.get("/metrics")
		require.NotContains(t, w.get("/metrics").Body.String(), "leadership_ballots{")
	})
}
