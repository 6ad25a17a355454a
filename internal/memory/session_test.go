package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestSessionEndsTTLAfterItsLastRenewal: to the nanosecond, at whatever moment between two renewals the line is cut.
// The lease has ended the whole grace before.
func TestSessionEndsTTLAfterItsLastRenewal(t *testing.T) {
	for _, ttl := range []time.Duration{time.Millisecond, time.Second, 10 * time.Second, time.Hour} {
		for eighth := range 8 {
			inBubble(t, func(t *testing.T) {
				service := memory.NewService()
				a, err := memory.Open(service, &memory.Config{TTL: ttl})
				require.NoError(t, err)
				defer a.Close()
				b := open(t, service)
				leading := lead(t, a, "a")
				next := wait(t.Context(), stand(t, b, "b"))
				span, ok := leading.Lease().Span()
				require.True(t, ok)

				time.Sleep(3*ttl + time.Duration(eighth)*ttl/8 + time.Nanosecond)
				require.False(t, next.returned(), "it is renewed")
				require.True(t, leading.Lease().Holds(span))
				a.Faults().Cut()
				last := leading.Lease().Last()
				require.Equal(t, last.Sent, last.Confirmed, "nothing delays it")
				require.Equal(t, last.Sent.Add(ttl-ttl/3), last.Deadline)

				time.Sleep(time.Until(last.Deadline) - time.Nanosecond)
				require.True(t, leading.Lease().Holds(span))
				time.Sleep(time.Nanosecond)
				require.False(t, leading.Lease().Holds(span))

				time.Sleep(time.Until(last.Sent.Add(ttl)) - time.Nanosecond)
				require.False(t, next.returned())
				require.Equal(t, []string{"a", "b"}, standing(t, b))
				require.Equal(t, "a", leader(t, b).Value)
				time.Sleep(time.Nanosecond)
				require.True(t, next.returned())
				require.NoError(t, next.err)
				require.Equal(t, last.Sent.Add(ttl), next.at)
				require.Equal(t, []string{"b"}, standing(t, b))
				require.Zero(t, leader(t, b), "the acknowledgement goes with the session")
			})
		}
	}
}

// TestSessionIsRenewedLaterThanTheLease: the service counts from the arrival of a renewal, the lease from its sending.
func TestSessionIsRenewedLaterThanTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const delay = 300 * time.Millisecond
		_, a, b := pair(t)
		ballot := stand(t, a, "a")
		next := wait(t.Context(), stand(t, b, "b"))
		a.Faults().Delay(delay)
		time.Sleep(2 * ttl)
		for last := ballot.Lease().Last(); time.Since(last.Confirmed) > 0; last = ballot.Lease().Last() {
			<-last.Changed // the moment of a confirmation
		}
		a.Faults().Cut()
		last := ballot.Lease().Last()
		require.Equal(t, 2*delay, last.Confirmed.Sub(last.Sent))
		<-next.done
		require.Equal(t, last.Sent.Add(delay+ttl), next.at)
		require.Equal(t, last.Sent.Add(ttl-grace), last.Deadline)
	})
}

func TestSessionIsRenewedForEver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		ballot := lead(t, a, "a")
		span, _ := ballot.Lease().Span()
		want := leader(t, b)
		time.Sleep(1000 * ttl)
		require.True(t, ballot.Lease().Holds(span))
		require.False(t, isLost(ballot))
		require.Equal(t, want, leader(t, b))
	})
}

// TestSessionSurvivesAnOutageShorterThanItsTTL. A leader whose lease ended in the outage does not lead again.
func TestSessionSurvivesAnOutageShorterThanItsTTL(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		ballot := lead(t, a, "a")
		span, _ := ballot.Lease().Span()
		a.Faults().Cut()
		time.Sleep(ttl - time.Millisecond)
		a.Faults().Heal()
		require.False(t, isLost(ballot))
		require.Equal(t, []string{"a"}, standing(t, b))
		require.False(t, holds(ballot), "the confirmation was sent too long ago")
		<-ballot.Lease().Last().Changed
		require.True(t, holds(ballot), "the next one counts")
		require.False(t, ballot.Lease().Holds(span), "for a new span")
		time.Sleep(10 * ttl)
		require.False(t, isLost(ballot))
	})
}

// TestSessionIsShared: a thousand elections cost one heartbeat.
func TestSessionIsShared(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		before := a.Faults().Requests()
		lease := stand(t, a, "a").Lease()
		for i := range 999 {
			ballot, err := a.Cast(t.Context(), string(rune(0x4e00+i)), "a")
			require.NoError(t, err)
			require.Same(t, lease, ballot.Lease())
		}
		synctest.Wait()
		require.Equal(t, 2000, a.Faults().Requests()-before, "each is cast and watched")
		time.Sleep(100 * ttl)
		require.LessOrEqual(t, a.Faults().Requests()-before, 2000+800, "one resync and one look at a head for each quarter of the TTL")
		require.NotSame(t, lease, stand(t, b, "b").Lease(), "another process")
	})
}

// TestSessionReopensByItself: all ballots are lost with the session, and the next ones stand in a new one.
func TestSessionReopensByItself(t *testing.T) {
	for name, end := range map[string]func(*memory.Store){
		"expired early": func(a *memory.Store) { a.Faults().Expire() },
		"outage": func(a *memory.Store) {
			a.Faults().Cut()
			time.Sleep(ttl + time.Nanosecond)
			a.Faults().Heal()
		},
		"outage ten times as long": func(a *memory.Store) {
			a.Faults().Cut()
			time.Sleep(10 * ttl)
			a.Faults().Heal()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				_, a, b := pair(t)
				old := lead(t, a, "old")
				other, err := a.Cast(t.Context(), "another election", "old")
				require.NoError(t, err)
				end(a)
				require.Empty(t, standing(t, b))
				require.Zero(t, leader(t, b))

				began := time.Now()
				next := lead(t, a, "next")
				require.LessOrEqual(t, time.Since(began), renewal, "the store learns of it with the next renewal")
				require.True(t, isLost(old))
				require.True(t, isLost(other))
				require.ErrorIs(t, old.Err(), store.ErrLost)
				require.False(t, holds(old))
				require.True(t, holds(next))
				require.NotSame(t, old.Lease(), next.Lease())
				require.Greater(t, next.Token(), old.Token())
				require.Equal(t, "next", leader(t, b).Value)
				time.Sleep(10 * ttl)
				require.True(t, holds(next))
				require.False(t, holds(old))
			})
		})
	}
}

// TestSessionOpensOnceTheServiceCanBeReached: a process may start before its service.
func TestSessionOpensOnceTheServiceCanBeReached(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		_, a, b := pair(t)
		a.Faults().Cut()
		a.Faults().Expire() // if it was open already
		time.Sleep(10 * ttl)
		cast := start(func() (store.Ballot, error) { return a.Cast(t.Context(), "x", "a") })
		time.Sleep(ttl)
		require.False(t, cast.returned())
		require.Empty(t, standing(t, b))
		a.Faults().Heal()
		<-cast.done
		require.NoError(t, cast.err)
		require.Equal(t, []string{"a"}, standing(t, b))
	})
}
