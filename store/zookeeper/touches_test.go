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

// expiry is when the ensemble's leader ends a session, as far as it knows at a time. It pings the session's server
// every half tick, and the answer reports whether there was a touch.
func expiry(confirmations []simulated, opened, phase, half, ttl, at time.Duration) time.Duration {
	end := opened + ttl
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
	const ttl = 12 * time.Second
	for _, ticks := range []float64{2, 2.2, 2.5, 2.9, 3, 5, 20} {
		for name, grace := range map[string]time.Duration{"least": ttl / 12, "default": ttl / 3, "most": ttl/2 - 1} {
			for _, own := range []bool{true, false} {
				t.Run(fmt.Sprintf("%v ticks, %s grace, own %v", ticks, name, own), func(t *testing.T) {
					remains, counted := grace, 0
					if ticks < 3 {
						remains = grace / 2
					}
					for seed := range uint64(200) {
						synctest.Test(t, func(t *testing.T) {
							r := rand.New(rand.NewPCG(seed, 1))
							counted += checkTouches(t, r, own, ttl, grace, time.Duration(float64(ttl)/ticks/2), remains)
						})
					}
					require.Greater(t, counted, 200, "the simulation renews leases")
				})
			}
		}
	}
}

func checkTouches(t *testing.T, r *rand.Rand, own bool, ttl, grace, half, remains time.Duration) (counted int) {
	random := func(most time.Duration) time.Duration { return time.Duration(r.Int64N(int64(most) + 1)) }
	slow := random(ttl / 3)
	var all []simulated
	var last, answered time.Duration
	for at := random(ttl); len(all) < 12; {
		if r.IntN(2) == 0 {
			at = max(at, answered+interval(ttl))
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

	start, opened, phase := time.Now(), -ttl, random(half)-half
	list := touches{ttl: ttl, grace: grace}
	if own {
		opened = 0
		list.reset(store.Now())
	}
	for _, e := range events {
		time.Sleep(time.Until(start.Add(e.at)))
		c := &all[e.i]
		if !e.answered {
			c.instant = store.Now()
			continue
		}
		age, ok := list.add(touch{sent: c.instant, answered: time.Now()})
		if !ok {
			continue
		}
		counted++
		least := expiry(all, opened, phase, half, ttl, c.received)
		require.LessOrEqual(t, c.sent-age+ttl-grace, least-remains, "confirmation %d of %+v", e.i, all)
	}
	return counted
}

// A confirmation right after another one does not make it count, however often that is repeated.
func TestTouchesThatFollowAtOnce(t *testing.T) {
	const ttl = 12 * time.Second
	for _, own := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			list := touches{ttl: ttl, grace: ttl / 12}
			start := time.Now()
			if own {
				list.reset(store.Now())
			}
			for time.Since(start) < ttl/6 {
				sent := store.Now()
				age, ok := list.add(touch{sent: sent, answered: time.Now()})
				require.Equal(t, own, ok)
				require.True(t, !ok || age == time.Since(start), "it counts from the handshake")
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
}

// If the ensemble's leader pauses it sends no pings. Afterwards it might answer requests before it learns of older
// touches. So an answer after a long silence does not make earlier touches count, but a handshake still does.
func TestTouchesBeforeASilence(t *testing.T) {
	const ttl = 12 * time.Second
	for _, own := range []bool{true, false} {
		for silence, counts := range map[time.Duration]bool{ttl * 5 / 12: true, ttl*5/12 + 1: own} {
			synctest.Test(t, func(t *testing.T) {
				list := touches{ttl: ttl, grace: ttl / 12}
				start := time.Now()
				if own {
					list.reset(store.Now())
				}
				list.add(touch{sent: store.Now(), answered: time.Now()})
				time.Sleep(ttl / 4)
				sent := store.Now()
				time.Sleep(silence - ttl/4)
				age, ok := list.add(touch{sent: sent, answered: time.Now()})
				require.Equal(t, counts, ok, "own %v, silence %v", own, silence)
				require.True(t, !ok || age == sent.Time().Sub(start))
				time.Sleep(ttl / 4)
				age, ok = list.add(touch{sent: store.Now(), answered: time.Now()})
				require.True(t, ok, "it goes on")
				require.Equal(t, silence, age)
			})
		}
	}
}

// In steady state each confirmation makes the one before count, if the link is quick.
func TestTouchesInSteadyState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl, trip = 12 * time.Second, 100 * time.Millisecond
		list := touches{ttl: ttl, grace: ttl / 3}
		list.reset(store.Now())
		for i := range 100 {
			sent := store.Now()
			time.Sleep(trip)
			age, ok := list.add(touch{sent: sent, answered: time.Now()})
			require.True(t, ok)
			if i > 1 {
				require.Equal(t, list.next()+2*trip, age)
			}
			require.Less(t, len(list.list), 6, "it does not grow")
			time.Sleep(list.next())
		}
	})
}
