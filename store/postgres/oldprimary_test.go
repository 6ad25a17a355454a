package postgres_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/stretchr/testify/require"
)

// The old primary goes on, without a standby. A store that has been told of the failover passes the old primary over,
// though the old primary's address comes first and it answers.
func TestOldPrimaryIsPassedOver(t *testing.T) {
	t.Parallel()
	p := newPair(t, false)
	var cutOff atomic.Bool
	p.config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if cutOff.Load() && address == p.primary.Addrs()[0] {
			return nil, errors.New("cut off by the test")
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	election := newElection()
	c := contend(t, open(t, p.config), election, "own")
	term := receive(t, c.Terms, "it leads")
	require.NoError(t, p.standby.CatchUp(soon(t)))
	require.NoError(t, p.standby.Disconnect(soon(t)))
	require.NoError(t, p.standby.Promote(soon(t)))

	const clients = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'leadership'"
	cutOff.Store(true)
	require.NotEqual(t, "0", p.primary.Query(t, clients))
	castFirst(t, c.Store, newElection(), "on the new primary")
	cutOff.Store(false)
	for range 3 {
		require.NotEqual(t, "0", p.standby.Query(t, clients))
		b := castFirst(t, c.Store, newElection(), "on the new primary")
		require.NotEqual(t, "0", p.standby.Query(t, "SELECT count(*) FROM leadership.entry WHERE token = "+strconv.FormatUint(b.Token(), 10)))
	}
	eventually(t, func() bool { return p.primary.Query(t, clients) == "0" }, "all connections are to the new primary")
	if term.Context().Err() != nil {
		require.Greater(t, receive(t, c.Terms, "it leads again").Token(), term.Token())
	}
	requireLeader(t, c.Store, election, "own")
}

// A primary that stands still is left for its standby, once that is promoted.
func TestPrimaryStandsStill(t *testing.T) {
	t.Parallel()
	p := newPair(t, false)
	first, second := contend(t, open(t, p.config), "a", "first"), contend(t, open(t, p.config), "a", "second")
	oneLeader(t, first, second)
	term := leaderAmong(t, first, second).Term()
	require.NoError(t, p.standby.CatchUp(soon(t)))
	require.NoError(t, p.primary.Member(0).Pause())
	began := time.Now()
	require.NoError(t, p.standby.Promote(soon(t)))
	eventually(t, func() bool {
		for _, c := range []*storetest.Contender{first, second} {
			if now := c.Term(); now != nil && now.Token() > term.Token() {
				return true
			}
		}
		return false
	}, "a later term")
	require.Greater(t, time.Since(began), ttl)
	t.Logf("a candidate led after %v", time.Since(began))
}
