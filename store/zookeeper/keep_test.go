package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// A lease that has begun is renewed before it ends, at round trips up to these. If they are so long that the first renewal
// would not reach the end of a lease that counts from the handshake, the lease begins with that renewal.
func TestRenewalsComeInTime(t *testing.T) {
	t.Parallel()
	const ttl = 24 * time.Second
	for name, c := range map[string]struct{ grace, most time.Duration }{
		"least grace":    {ttl / 12, ttl * 19 / 100},
		"default grace":  {ttl / 3, ttl * 18 / 100},
		"greatest grace": {ttl/2 - time.Millisecond, ttl / 9},
	} {
		for trip := ttl / 80; trip <= c.most; trip += ttl / 80 {
			t.Run(fmt.Sprintf("%s, %v", name, trip), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &scriptedServer{ttl: ttl, grace: c.grace, trip: trip}
					d := s.driver(t)
					sess, proof, err := d.Open(t.Context())
					for err != nil {
						sess, proof, err = d.Open(t.Context())
					}
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
					defer cancel()
					var renewals int
					var late time.Duration // of the last renewal that came when the lease was over
					var end time.Time
					if proof != (engine.Proof{}) {
						end = proof.Sent.Time().Add(proof.Valid)
					}
					_ = sess.Keep(ctx, func(p engine.Proof) {
						if !end.IsZero() && time.Now().After(end) {
							late = time.Since(end)
						}
						end = p.Sent.Time().Add(p.Valid)
						renewals++
					})
					require.Zero(t, late)
					require.Greater(t, renewals, 10)
				})
			})
		}
	}
}

// A new connection has as much time for its first answer as any other, whenever the one before has broken: at the longest
// round trips that are promised, no connection is given up.
func TestReconnectionIsNotCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{ttl: scriptedTTL, trip: scriptedTTL / 8}
		d := s.driver(t)
		sess := s.session(t, d)
		for i := range time.Duration(20) {
			time.Sleep(scriptedTTL + i*scriptedTTL/100) // at any moment between two confirmations
			l, err := d.up(t.Context())
			require.NoError(t, err)
			l.wire.end(errors.New("for a test"))
			synctest.Wait()
			require.Equal(t, sess, s.session(t, d))
			require.Len(t, s.asked, int(i)+2, "one handshake for each connection")
		}
	})
}

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

// The time for which the process itself has stood still is no silence of the server's: an answer that has come is read. After
// a longer standstill the session is resumed at the same server, since what was confirmed before counts no more.
func TestStandstillLeavesNoServer(t *testing.T) {
	for name, c := range map[string]struct {
		trip, still time.Duration
		dials       int
	}{
		"an answer is overdue": {scriptedTTL / 8, scriptedTTL / 6, 1},
		"nothing counts":       {0, scriptedTTL / 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var dialled []string
				s := &scriptedServer{ttl: scriptedTTL, trip: c.trip}
				d := s.driverAt(t, []string{"a:1", "b:1"}, func(ctx context.Context, network, address string) (net.Conn, error) {
					dialled = append(dialled, address)
					return s.dial(ctx, network, address)
				})
				sess := s.session(t, d)
				time.Sleep(scriptedTTL)
				l, err := d.up(t.Context())
				require.NoError(t, err)
				still := c.still
				x, _, _ := l.watches.add("/node", false)
				l.watches.begin(x, engine.News{State: &engine.State{}}, func(n engine.News) {
					if !n.AsOf.IsZero() { // serve tells
						time.Sleep(still)
						still = 0
					}
				})
				time.Sleep(2 * scriptedTTL)
				require.Equal(t, sess, s.session(t, d))
				synctest.Wait()
				require.Zero(t, still)
				require.Equal(t, slices.Repeat(dialled[:1], c.dials), dialled)
			})
		})
	}
}
