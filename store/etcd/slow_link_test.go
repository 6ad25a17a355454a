package etcd_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
)

// With a round trip of an eighth of the TTL, a candidate leads and keeps leading, and followers are told and confirmed.
// The line is that slow from the start, or turns slow while the candidate leads.
func TestSlowLink(t *testing.T) {
	t.Parallel()
	const ttl = 12 * time.Second // an answer may be late by an eighth of that: 1.5 s, for a busy machine
	for name, slowAtFirst := range map[string]bool{"from the start": true, "while leading": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var link storetest.Link
			if slowAtFirst {
				link.RoundTrip(ttl / 8)
			}
			election := newElection()
			start := time.Now()
			c := contend(t, open(t, etcd.Config{Dial: link.Dial, TTL: ttl}), election, "own")
			term := receive(t, c.Terms, "it leads")
			t.Logf("acknowledged after %v", time.Since(start))
			require.Empty(t, c.Errors(), "the first campaign takes long enough")
			link.RoundTrip(ttl / 8)
			follower := open(t, etcd.Config{Dial: link.Dial, TTL: ttl})
			leader, err := storetest.Leader(soon(t), follower, election, nil)
			require.NoError(t, err)
			require.Equal(t, "own", leader.Value)
			start = time.Now()
			var least = ttl
			eventually(t, func() bool {
				require.NoError(t, term.Context().Err(), "after %v", time.Since(start))
				least = min(least, term.Remaining())
				return time.Since(start) > 2*ttl
			}, "two TTLs")
			t.Logf("the lease had %v left at least", least)
			c.Resign()
			next, err := storetest.Leader(soon(t), follower, election, &leader)
			require.NoError(t, err)
			require.NotEqual(t, leader, next)
			for _, st := range []store.Store{follower, c.Store} {
				confirmedAgain(t, st)
			}
		})
	}
}
