package zookeeper_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

// The connection breaks when a ballot's creation has reached the ensemble's leader and is not committed yet. The next
// member answers a read without the ballot, so the search waits for a barrier. Otherwise the store would cast another
// ballot, which would wait for the first one.
func TestSearchIsBehindTheCreation(t *testing.T) {
	t.Parallel()
	ensemble := testserver.NewZooKeeper(t, testserver.ZooKeeperConfig{
		Members: 4,                                                                                     // two of them are no quorum, and one still serves those of the other for a while
		Extra:   map[string]string{"maxSessionTimeout": "60000", "forceSync": "no", "syncLimit": "40"}, // the while: 20 s
	})
	leader, err := ensemble.Leader()
	require.NoError(t, err)
	addrs := ensemble.Addrs()
	var moved atomic.Bool
	tp := newTap(t, func(ctx context.Context, network, _ string) (net.Conn, error) {
		member := leader
		if moved.Load() {
			member = (leader + 1) % 4
		}
		return (&net.Dialer{}).DialContext(ctx, network, addrs[member])
	})
	st := open(t, zookeeper.Config{Servers: addrs, Dial: tp.Dial})
	election := newElection()
	require.NoError(t, castFirst(t, st, election, "so that there is a session").Withdraw(soon(t)))
	for _, i := range []int{2, 3} {
		member := ensemble.Member((leader + i) % 4)
		require.NoError(t, member.Pause())
		defer member.Resume()
	}
	created := tp.catch(t, holdReply, opCreate, dir(election)+"/")
	cast := make(chan error, 1)
	go func() {
		b, err := st.Cast(soon(t), election, "ours")
		if err == nil {
			err = b.Wait(soon(t))
		}
		cast <- err
	}()
	receive(t, created.caught, "the request")
	eventually(t, func() bool {
		answer, err := ensemble.Command(soon(t), leader, "srvr")
		return err == nil && !strings.Contains(answer, "Outstanding: 0")
	}, "the ensemble's leader has it")
	lists := func() int { return tp.Count(opList, dir(election)) }
	searches := func() int { return tp.Count(opMulti, theRoot) + lists() }
	before, listed := searches(), lists()
	// A server answers a read behind the writes of its session. So the search must not rely on another request to be one.
	confirmation := tp.catch(t, hold, opMulti, theRoot)
	moved.Store(true)
	tp.breakOff()
	eventually(t, func() bool { return searches() >= before+2 }, "the session is confirmed, and the ballot searched for")
	require.Equal(t, listed, lists(), "the nodes are listed when the barrier has been answered")
	for _, i := range []int{2, 3} {
		require.NoError(t, ensemble.Member((leader+i)%4).Resume())
	}
	confirmation.letGo()
	require.NoError(t, receive(t, cast, "the ballot"), "a ballot that nothing looks after must not be ahead")
	require.Len(t, values(t, st, election), 1)
}
