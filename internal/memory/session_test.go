package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/memory"
	"github.com/stretchr/testify/require"
)

// TestSessionEndsTTLAfterItsLastRenewal: to the nanosecond, at whatever moment between two renewals the line is cut.
// The lease has ended the whole grace before.
func TestSessionEndsTTLAfterItsLastRenewal(t *testing.T) {
	for _, ttl := range []time.Duration{time.Millisecond, time.Second, 10 * time.Second, time.Hour} {
		for eighth := range 8 {
			synctest.Test(t, func(t *testing.T) {
				service := memory.NewService()
				a, err := memory.Open(service, &memory.Config{TTL: ttl})
				require.NoError(t, err)
				defer a.Close()
				b, err := memory.Open(service, &memory.Config{TTL: ttl})
				require.NoError(t, err)
				defer b.Close()
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
	synctest.Test(t, func(t *testing.T) {
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
