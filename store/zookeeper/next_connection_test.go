package zookeeper

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// What is confirmed is as of the time before the confirmation was sent: the answer proves nothing of the round trip.
func TestConfirmationIsAsOfItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{ttl: scriptedTTL, trip: scriptedTTL / 8}
		d := s.driver(t)
		s.session(t, d)
		l, err := d.up(t.Context())
		require.NoError(t, err)
		var told atomic.Int32
		x, _, _ := l.watches.add("/node", false)
		l.watches.begin(x, engine.News{State: &engine.State{}}, func(n engine.News) {
			if !n.AsOf.IsZero() {
				told.Add(1)
				require.GreaterOrEqual(t, time.Since(n.AsOf), s.trip)
			}
		})
		require.NoError(t, d.Confirm(t.Context()))
		require.NotZero(t, told.Load())
		d.mu.Lock()
		defer d.mu.Unlock()
		require.GreaterOrEqual(t, time.Since(l.confirmed), s.trip)
	})
}

// A server that grants another session than the one that was asked for is left, and the session goes on with the next.
func TestAnotherSessionIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{ttl: scriptedTTL, grant: func(dial int, _ int64) (int64, bool) {
			if dial == 2 {
				return granted + 1000, true
			}
			return -1, true
		}}
		d := s.driver(t)
		sess := s.session(t, d)
		l, err := d.up(t.Context())
		require.NoError(t, err)
		l.wire.end(errLeft)
		synctest.Wait()
		time.Sleep(scriptedTTL / 2)
		require.Equal(t, sess, s.session(t, d))
		require.Equal(t, []int64{0, granted, granted}, s.asked)
	})
}

// The watches of a connection are over when requests can use the next one: they tell nothing any more. Connections that
// no request could use change nothing of that.
func TestWatchesAreOverOnTheNextConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{ttl: scriptedTTL, mute: func(dial int, _ int32) bool { return dial == 2 }}
		d := s.driver(t)
		s.session(t, d)
		l, err := d.up(t.Context())
		require.NoError(t, err)
		var over atomic.Bool
		x, _, _ := l.watches.add("/node", true)
		l.watches.begin(x, engine.News{State: &engine.State{Token: 1}}, func(n engine.News) {
			if n.Over {
				over.Store(true)
			}
		})
		l.wire.end(errLeft)
		synctest.Wait()
		require.False(t, over.Load(), "what it has missed can't be read yet")
		time.Sleep(scriptedTTL)
		s.session(t, d)
		require.True(t, over.Load())
		require.Len(t, s.asked, 3)
	})
}

// A read finds that a node is gone, and no event has told that. All watches on the node are told.
func TestNodeGoesWithoutAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{ttl: scriptedTTL, gone: opExists}
		d := s.driver(t)
		s.session(t, d)
		l, err := d.up(t.Context())
		require.NoError(t, err)
		gone := 0
		tell := func(n engine.News) {
			if n.Over && n.State != nil {
				gone++
			}
		}
		x, _, _ := l.watches.add("/node", true)
		l.watches.arm(x, node{})
		l.watches.begin(x, engine.News{State: &engine.State{Token: 1}}, tell)
		_, err = d.WatchEntry(t.Context(), "/node", tell)
		require.NoError(t, err)
		require.Equal(t, 2, gone)
	})
}
