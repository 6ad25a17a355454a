package consul_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

// The requests of a confirmation are sent at the same time. It counts only if each of them has been answered: a lease
// never counts from a request that the agent or the servers might not have seen.
func TestConfirmationNeedsEachAnswer(t *testing.T) {
	for name, parts := range map[string][]string{
		"the pass": {"PUT", "check/update"}, "the read": {"GET", "session/info", "consistent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tp := newTap(t)
			st := open(t, consul.Config{Addresses: tp.addr(), TTL: 2 * short})
			b := castFirst(t, st, newElection(), "own")
			first := b.Lease().Last()
			receive(t, first.Changed, "a confirmation")
			silent := time.Now()
			for range 100 {
				tp.catch(hang, parts...)
			}
			before := tp.Count("")
			lost(t, b)
			require.False(t, b.Lease().Last().Sent.After(silent), "a confirmation has counted without an answer")
			require.Less(t, time.Since(silent), 4*short, "the session is given up, a TTL after the last one that counted")
			require.Less(t, tp.Count("")-before, 60, "requests in that time")
		})
	}
}

// A confirmation without an answer does not cost the lease.
func TestConfirmationHangs(t *testing.T) {
	for name, c := range map[string]struct {
		ttl   time.Duration
		parts []string
	}{
		"the pass": {checked, []string{"PUT", "check/update"}}, "the read": {long, []string{"GET", "session/info", "consistent"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tp := newTap(t)
			b := castFirst(t, open(t, consul.Config{Addresses: tp.addr(), TTL: c.ttl}), newElection(), "own")
			span, holds := b.Lease().Span()
			require.True(t, holds)
			hung := tp.catch(hang, c.parts...)
			receive(t, hung.caught, "its end")
			storetest.Renewed(t, b)
			require.True(t, b.Lease().Holds(span))
		})
	}
}
