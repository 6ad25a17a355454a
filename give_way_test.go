package leadership_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// A candidate is first in line on a link with a round trip of 0.7 TTL. Its session lives, but each answer comes too
// late for its lease. After one TTL it gives its ballot back, reports that, and stands again at the back.
func TestFirstOnASlowLinkGivesWay(t *testing.T) {
	virtual(t, func(w *world) {
		var waits []time.Duration
		var log bytes.Buffer
		opts := trying(&waits, leadership.ErrNoLease)
		opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
		leader := w.lead(w.open(), "leader")
		st := w.open()
		slow, next := w.candidate(st, "slow", opts), w.candidate(w.open(), "next", nil)
		_, errs := slow.RunForElection()
		synctest.Wait()
		next.RunForElection()
		synctest.Wait()
		require.Equal(w, []string{"leader", "slow", "next"}, w.ballots())
		st.Faults().Delay(ttl * 35 / 100)
		w.at(ttl)
		require.NoError(w, leader.Withdraw(background))
		for !next.IsLeader() {
			require.False(w, slow.IsLeader())
			require.Less(w, w.now(), 4*ttl, "the slow one keeps the other waiting")
			w.at(w.now() + ttl/100)
		}
		w.at(6 * ttl)
		require.True(w, next.IsLeader())
		require.Equal(w, []string{"next", "slow"}, w.ballots(), "it stands again at the back")
		require.Len(w, waits, 1, "the hook is told once")
		require.ErrorIs(w, <-errs, leadership.ErrNoLease)
		require.Equal(w, 1, bytes.Count(log.Bytes(), []byte("level=WARN")), "%s", log.String())
		require.NotContains(w, log.String(), "could not confirm that the ballot was removed")
	})
}

// The limit is one TTL, to the nanosecond. A lease that holds before that is a term.
func TestFirstWithoutALease(t *testing.T) {
	for name, confirmed := range map[string]time.Duration{"just in time": ttl - 1, "never": 10 * ttl} {
		virtualRun(t, name, func(w *world) {
			lease := store.NewLease()
			c := w.candidate(changing(w.open(), func(b *fakeBallot) { b.lease = lease }), "a", nil)
			time.AfterFunc(confirmed, func() { lease.Renew(store.Now(), valid) })
			term, err := c.Campaign(background)
			if name == "never" {
				require.ErrorIs(w, err, leadership.ErrNoLease)
				require.Equal(w, ttl, w.now())
				require.Empty(w, w.ballots(), "the ballot is given back, with a context that has not ended")
				return
			}
			require.NoError(w, err)
			require.True(w, c.IsLeader())
			require.NoError(w, term.Withdraw(background))
		})
	}
}

// Time in the queue does not count.
func TestWaitingIsNoReasonToGiveWay(t *testing.T) {
	virtual(t, func(w *world) {
		leader := w.lead(w.open(), "leader")
		c := w.candidate(w.open(), "a", &leadership.Options{Hooks: &leadership.Hooks{
			Error: func(_ string, err error, _ time.Duration) { t.Errorf("the hook was told %q", err) },
		}})
		won := async(func() error {
			return c.Run(background, func(ctx context.Context, term *leadership.Term) error { return serve(ctx, term) })
		})
		w.at(10 * ttl)
		require.NoError(w, leader.Withdraw(background))
		synctest.Wait()
		require.True(w, c.IsLeader())
		halt(c)
		require.NoError(w, <-won)
	})
}
