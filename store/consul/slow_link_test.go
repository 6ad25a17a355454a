package consul_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/storetest"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

// With a round trip of a twentieth of the TTL below 10 s, and of a fourteenth from there on, a candidate leads and goes
// on leading. docs/backends.md has the arithmetic of the limits.
func TestSlowLink(t *testing.T) {
	t.Parallel()
	for ttl, share := range map[time.Duration]time.Duration{8 * time.Second: 20, 10 * time.Second: 14} {
		t.Run(ttl.String(), func(t *testing.T) {
			t.Parallel()
			var link storetest.Link
			link.RoundTrip(ttl / share)
			c := contend(t, open(t, consul.Config{Dial: link.Dial, TTL: ttl}), newElection(), "own")
			term := receive(t, c.Terms, "it leads")
			start, least := time.Now(), ttl
			eventually(t, func() bool {
				require.NoError(t, term.Context().Err(), "after %v", time.Since(start))
				least = min(least, term.Remaining())
				return time.Since(start) > 2*ttl
			}, "two TTLs")
			t.Logf("the lease had %v left at least", least)
		})
	}
}
