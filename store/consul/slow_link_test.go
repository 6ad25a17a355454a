package consul_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

// With a round trip of an eighth of the TTL, a candidate leads and keeps leading, and followers are told and confirmed. The
// link is that slow from the start, or turns slow while the candidate leads.
func TestSlowLink(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ttl         time.Duration
		slowAtFirst bool
	}{
		"check, from the start":   {checked, true},
		"check, while leading":    {checked, false},
		"session, from the start": {long, true},
		"session, while leading":  {long, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var link storetest.Link
			if c.slowAtFirst {
				link.RoundTrip(c.ttl / 8)
			}
			election := newElection()
			start := time.Now()
			own := contend(t, open(t, consul.Config{Dial: link.Dial, TTL: c.ttl}), election, "own")
			term := receive(t, own.Terms, "it leads")
			t.Logf("acknowledged after %v", time.Since(start))
			link.RoundTrip(c.ttl / 8)
			follower := open(t, consul.Config{Dial: link.Dial, TTL: c.ttl})
			leader, err := storetest.Leader(soon(t), follower, election, nil)
			require.NoError(t, err)
			require.Equal(t, "own", leader.Value)
			start = time.Now()
			least := c.ttl
			eventually(t, func() bool {
				require.NoError(t, term.Context().Err(), "after %v", time.Since(start))
				least = min(least, term.Remaining())
				known, err := follower.Observe(soon(t), election, &store.Known{}) // what is known
				require.NoError(t, err)
				require.Less(t, time.Since(known.AsOf), c.ttl)
				return time.Since(start) > 2*c.ttl
			}, "two TTLs")
			t.Logf("the lease had %v left at least", least)
			own.Resign()
			next, err := storetest.Leader(soon(t), follower, election, &leader)
			require.NoError(t, err)
			require.NotEqual(t, leader, next)
		})
	}
}
