package zookeeper_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

// A store that has worked before reports what is wrong now: it does not ask about TLS, and does not mention connections
// that it closed itself.
func TestErrorOfAStoreThatHasWorked(t *testing.T) {
	t.Parallel()
	silent := storetest.SilentServer(t)
	for name, c := range map[string]struct{ address, want string }{
		"refused": {"127.0.0.1:1", "connection refused"},
		"silent":  {silent, "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var elsewhere atomic.Bool
			tp := newTap(t, func(ctx context.Context, network, address string) (net.Conn, error) {
				if elsewhere.Load() {
					address = c.address
				}
				return (&net.Dialer{}).DialContext(ctx, network, address)
			})
			st := open(t, zookeeper.Config{Dial: tp.Dial})
			require.NoError(t, castFirst(t, st, newElection(), "own").Withdraw(soon(t)))
			elsewhere.Store(true)
			tp.breakOff()
			var err error
			eventually(t, func() bool {
				_, err = st.Cast(within(t, time.Second), newElection(), "own")
				return err == nil || strings.Contains(err.Error(), c.want)
			}, "an error that says %q", c.want)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotContains(t, err.Error(), "TLS")
			require.NotContains(t, err.Error(), "closed network connection")
		})
	}
}

// The server is away for longer than the TTL while one candidate leads and others wait. None leads meanwhile, one leads
// afterwards, and each casts one ballot again.
func TestOutageLongerThanTheTTL(t *testing.T) {
	t.Parallel()
	server := faultyServer(t)
	member := server.Member(0)
	election := newElection()
	config := zookeeper.Config{Servers: server.Addrs(), TTL: ttl}
	var all []*contender
	for _, name := range []string{"a", "b", "c"} {
		all = append(all, contend(t, open(t, config), election, name))
	}
	oneLeader(t, all...)
	st := open(t, config)
	follower, heard := newFollower(t, st, election), ""
	for name, fault := range map[string]struct{ down, up func() error }{
		"killed": {member.Kill, func() error { return member.Start(soon(t)) }},
		"paused": {member.Pause, member.Resume},
	} {
		t.Run(name, func(t *testing.T) {
			leaderAmong(t, all...)
			eventually(t, func() bool { return len(values(t, st, election)) == len(all) }, "all stand")
			require.NoError(t, fault.down())
			stepDown(t, time.Now().Add(ttl), all...) // another may lead by now
			require.Never(t, func() bool {
				return all[0].IsLeader() || all[1].IsLeader() || all[2].IsLeader()
			}, ttl, 10*time.Millisecond)
			require.NoError(t, fault.up())
			leaderAmong(t, all...)
			eventually(t, func() bool { return len(values(t, st, election)) == len(all) }, "all stand again")
			eventually(t, func() bool {
				select {
				case heard = <-follower:
				default:
				}
				return heard == leaderAmong(t, all...).Value // which is not sent again if it was the last to be read
			}, "the follower is told of the leader")
		})
	}
}
