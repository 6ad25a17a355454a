package etcd

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Remove of an entry that another client deleted also removes the acknowledgement, if that belongs to the entry. If it
// belongs to another session it stays, even at the same revision, which a restored cluster gives out again.
func TestRemoveLeavesTheAcknowledgementOfOthers(t *testing.T) {
	t.Parallel()
	d, s := opened(t)
	other, _, err := d.Open(soon(t))
	require.NoError(t, err)
	turn := uint64(0)
	lead := func(s engine.Session, election string) (engine.Entry, uint64) {
		t.Helper()
		turn++
		e, err := s.Enter(soon(t), election, engine.Nonce{Name: fmt.Sprint("n", turn), Turn: turn}, "v")
		require.NoError(t, err)
		revision, err := s.Acknowledge(soon(t), e, "v")
		require.NoError(t, err)
		return e, revision
	}
	yes, no := func() bool { return true }, func() bool { return false }
	for name, c := range map[string]struct {
		next     engine.Session // acknowledges after the entry was deleted; nil if no session does
		revision func(own, next uint64) uint64
		alone    func() bool
		stays    bool
	}{
		"its own":                               {revision: func(own, _ uint64) uint64 { return own }, alone: no},
		"its own, of another revision":          {revision: func(own, _ uint64) uint64 { return own - 1 }, alone: yes, stays: true},
		"its own, perhaps":                      {revision: func(_, _ uint64) uint64 { return 0 }, alone: yes},
		"perhaps another ballot's":              {revision: func(_, _ uint64) uint64 { return 0 }, alone: no, stays: true},
		"another ballot's":                      {s, func(own, _ uint64) uint64 { return own }, yes, true},
		"another session's":                     {other, func(own, _ uint64) uint64 { return own }, yes, true},
		"another session's, of the revision":    {other, func(_, next uint64) uint64 { return next }, yes, true},
		"another session's, revision not known": {other, func(_, _ uint64) uint64 { return 0 }, yes, true},
	} {
		t.Run(name, func(t *testing.T) {
			e, own := lead(s, name)
			_, err := d.change(soon(t), nil, clientv3.OpDelete(keyOf(e.Key)))
			require.NoError(t, err)
			next := uint64(0)
			if c.next != nil {
				_, next = lead(c.next, name)
			}
			require.NoError(t, s.Remove(soon(t), engine.Removal{
				Entry: e, Led: true, Acknowledged: true, Revision: c.revision(own, next), Alone: c.alone,
			}))
			_, held, err := d.ballotAndAck(soon(t), e)
			require.NoError(t, err)
			require.Equal(t, c.stays, held.ModRevision != 0)
		})
	}
	require.NoError(t, other.End(soon(t), nil))
}

// While the entry stands, Remove deletes what its session holds, and not what another lease holds, or no lease.
func TestRemoveOfAnEntryThatStands(t *testing.T) {
	t.Parallel()
	d, s := opened(t)
	other, _, err := d.Open(soon(t))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		holder []clientv3.OpOption
		stays  bool
	}{
		"its own":         {holder: []clientv3.OpOption{s.onLease()}},
		"no lease's":      {stays: true},
		"another lease's": {holder: []clientv3.OpOption{other.(*session).onLease()}, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := s.Enter(soon(t), name, engine.Nonce{Name: "n", Turn: 1}, "v")
			require.NoError(t, err)
			_, err = d.change(soon(t), nil, clientv3.OpPut(d.layout.ack(name), "v", c.holder...))
			require.NoError(t, err)
			require.NoError(t, s.Remove(soon(t), engine.Removal{Entry: e, Led: true, Acknowledged: true}))
			stands, held, err := d.ballotAndAck(soon(t), e)
			require.NoError(t, err)
			require.False(t, stands)
			require.Equal(t, c.stays, held.ModRevision != 0)
		})
	}
	require.NoError(t, other.End(soon(t), nil))
}

// A ballot of the same session and election that was not acknowledged leaves the leader's acknowledgement.
func TestRemoveOfAWaiter(t *testing.T) {
	t.Parallel()
	d, s := opened(t)
	leader, err := s.Enter(soon(t), "x", engine.Nonce{Name: "leader", Slot: 1, Turn: 1}, "v")
	require.NoError(t, err)
	waiter, err := s.Enter(soon(t), "x", engine.Nonce{Name: "waiter", Slot: 2, Turn: 1}, "v")
	require.NoError(t, err)
	revision, err := s.Acknowledge(soon(t), leader, "v")
	require.NoError(t, err)
	require.NoError(t, s.Remove(soon(t), engine.Removal{Entry: waiter}))
	stands, held, err := d.ballotAndAck(soon(t), leader)
	require.NoError(t, err)
	require.True(t, stands)
	require.EqualValues(t, revision, held.ModRevision)
}

// An acknowledgement that has changed since it was read might be that of another leader, and stays.
func TestAcknowledgementThatHasChangedIsNotDeleted(t *testing.T) {
	t.Parallel()
	d, s := opened(t)
	put := func() {
		_, err := d.change(soon(t), nil, clientv3.OpPut(d.layout.ack("x"), "v", s.onLease()))
		require.NoError(t, err)
	}
	put()
	require.NoError(t, s.Remove(soon(t), engine.Removal{
		Entry:        engine.Entry{Election: "x", Key: entryKey("leadership/x/_ballots/0-n", 1), Token: 1},
		Acknowledged: true, Alone: func() bool { put(); return true },
	}))
	held, _, err := d.readKey(soon(t), d.layout.ack("x"))
	require.NoError(t, err)
	require.NotNil(t, held)
}

// End asks again if the request to revoke the lease might not have come to the cluster: the next leader need not wait for
// the lease to end by itself.
func TestEndAsksAgain(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	_, s := opened(t, func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		if strings.HasSuffix(method, "/LeaseRevoke") && asked.Add(1) == 1 {
			return status.Error(codes.Unavailable, "the request is lost")
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	})
	require.NoError(t, s.End(soon(t), nil))
	require.EqualValues(t, 2, asked.Load())
	require.ErrorIs(t, s.Void(soon(t), "x", engine.Nonce{Name: "n", Turn: 1}), engine.ErrOver)
}
