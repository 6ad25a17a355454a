package zookeeper

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// simulated is a confirmation in a simulated session, in times since its start.
type simulated struct {
	sent, received, answered time.Duration

	instant store.Instant
}

// expiry is when the ensemble's leader ends a session that it opened at 0, as far as it knows at a time. It pings the session's server
// every half tick, and the answer reports whether there was a touch.
func expiry(confirmations []simulated, phase, half, ttl, at time.Duration) time.Duration {
	end := ttl
	for ping := phase; ping <= at; ping += half {
		if slices.ContainsFunc(confirmations, func(c simulated) bool {
			return c.received > ping-half && c.received <= ping
		}) {
			end = max(end, ping+ttl)
		}
	}
	return end
}

// The lease ends before the leader would end the session if it received no more touches: by the whole grace with three
// ticks or more, by half of it with two. Delays are random, and so is how often the session is confirmed.
func TestTouchesCountNoMoreThanTheLeaderKnows(t *testing.T) {
	t.Parallel()
	const ttl = 12 * time.Second
	for _, ticks := range []float64{2, 2.2, 2.5, 2.9, 3, 5, 20} {
		for name, grace := range map[string]time.Duration{"least": ttl / 12, "default": ttl / 3, "most": ttl/2 - 1} {
			t.Run(fmt.Sprintf("%v ticks, %s grace", ticks, name), func(t *testing.T) {
				remains, renewals := grace, 0
				if ticks < 3 {
					remains = grace / 2
				}
				for seed := range uint64(400) {
					synctest.Test(t, func(t *testing.T) {
						r := rand.New(rand.NewPCG(seed, 1))
						renewals += checkTouches(t, r, ttl, grace, time.Duration(float64(ttl)/ticks/2), remains)
					})
				}
				require.Greater(t, renewals, 200, "the simulation renews leases")
			})
		}
	}
}

func checkTouches(t *testing.T, r *rand.Rand, ttl, grace, half, remains time.Duration) (renewals int) {
	random := func(most time.Duration) time.Duration { return time.Duration(r.Int64N(int64(most) + 1)) }
	slow := random(ttl / 3)
	var all []simulated
	var last, answered time.Duration
	for at := random(ttl); len(all) < 12; {
		if r.IntN(2) == 0 {
			at = max(at, answered+pause(ttl))
		}
		c := simulated{sent: at}
		c.received = max(last, at+random(slow))
		c.answered = max(answered, c.received+random(slow))
		last, answered = c.received, c.answered
		all = append(all, c)
		at += random(ttl / 3)
	}
	type event struct {
		at       time.Duration
		i        int
		answered bool
	}
	var events []event
	for i, c := range all {
		events = append(events, event{c.sent, i, false}, event{c.answered, i, true})
	}
	slices.SortStableFunc(events, func(a, b event) int { return int(a.at - b.at) })

	start, phase := time.Now(), random(half)-half
	list := touches{ttl: ttl, grace: grace, list: []touch{{sent: store.Now()}}}
	for _, e := range events {
		time.Sleep(time.Until(start.Add(e.at)))
		c := &all[e.i]
		if !e.answered {
			c.instant = store.Now()
			continue
		}
		if list.silent(time.Now()) {
			break // the connection is given up
		}
		age, renewal := list.add(touch{sent: c.instant, answered: time.Now()})
		if renewal {
			renewals++
		}
		least := expiry(all, phase, half, ttl, c.received)
		require.LessOrEqual(t, c.sent-age+ttl-grace, least-remains, "confirmation %d of %+v", e.i, all)
	}
	return renewals
}

// In steady state each confirmation makes the one before count, if the link is quick.
func TestTouchesInSteadyState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl, trip = 12 * time.Second, 100 * time.Millisecond
		list := touches{ttl: ttl, grace: ttl / 3, list: []touch{{sent: store.Now()}}}
		for i := range 100 {
			sent := store.Now()
			time.Sleep(trip)
			require.False(t, list.silent(time.Now()))
			age, renewal := list.add(touch{sent: sent, answered: time.Now()})
			require.Equal(t, i > 0, renewal)
			if i > 1 {
				require.Equal(t, pause(ttl)+2*trip, age)
			}
			require.Less(t, len(list.list), 6, "it does not grow")
			time.Sleep(pause(ttl))
		}
	})
}

// If the ensemble's leader pauses it sends no pings. Afterwards it might answer requests before it learns of older
// touches. So the connection is given up after an answer that ends a long silence.
func TestTouchesBeforeASilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := touches{ttl: scriptedTTL, list: []touch{{sent: store.Now()}}}
		require.False(t, list.silent(time.Now().Add(time.Hour)), "the leader knows of the handshake")
		list.add(touch{sent: store.Now(), answered: time.Now()})
		require.False(t, list.silent(time.Now().Add(silence(scriptedTTL))))
		require.True(t, list.silent(time.Now().Add(silence(scriptedTTL)+1)))

		d := (&scriptedServer{ttl: scriptedTTL}).driver(t)
		l, err := d.up(t.Context())
		require.NoError(t, err)
		k := &link{driver: d, wire: l.wire, session: l.session, touches: list, under: []confirmation{{sent: store.Now()}}}
		time.Sleep(silence(scriptedTTL) + 1)
		k.take(nil)
		require.ErrorIs(t, l.wire.why(), errStoodStill)
	})
}
