package etcd

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/status"
)

// Two ballots of one lease are deleted in one step, one behind the other. The second is not first at any moment.
func TestBallotsOfOneLeaseDeletedTogether(t *testing.T) {
	t.Parallel()
	client := operator(t)
	st, other := open(t, Config{}), open(t, Config{})
	for range 30 {
		election := newElection()
		first, second := castFirst(t, st, election, "first"), cast(t, st, election, "second")
		third := cast(t, other, election, "third")
		one, _ := ballotOf(t, client, election, "first")
		two, _ := ballotOf(t, client, election, "second")
		_, err := client.Txn(soon(t)).Then(clientv3.OpDelete(one), clientv3.OpDelete(two)).Commit()
		require.NoError(t, err)
		require.ErrorIs(t, second.Wait(soon(t)), store.ErrLost)
		lost(t, first)
		lost(t, second)
		_, err = second.Acknowledge(soon(t), "second")
		require.ErrorIs(t, err, store.ErrLost)
		require.NoError(t, third.Wait(soon(t)))
		require.NoError(t, third.Withdraw(soon(t)))
	}
}

// Once a turn of a slot is void, no late request creates an entry of this turn or an earlier one, even if requests to
// void arrive late. The next turn stands, at the latest once it was void itself.
func TestVoid(t *testing.T) {
	t.Parallel()
	d, s := opened(t)
	asOfNow := func() *session { // with the requests that the session would send now, which arrive late
		return &session{driver: d, id: s.id, voided: s.voided, single: map[string]bool{}}
	}
	nonce := func(turn uint64) engine.Nonce {
		return engine.Nonce{Name: fmt.Sprintf("nonce%d", turn), Slot: 3, Turn: turn}
	}
	marks := func() int {
		t.Helper()
		found, _, err := d.read(soon(t), nil, clientv3.OpGet(d.layout.prefix+"/_void/"+s.ID()+"-", clientv3.WithPrefix()))
		require.NoError(t, err)
		return len(found[0].Kvs)
	}
	stand := func(n int) {
		t.Helper()
		list, err := d.Ballots(soon(t), "x")
		require.NoError(t, err)
		require.Len(t, list, n)
	}
	isVoid := func(s *session, turn uint64) {
		t.Helper()
		_, err := s.Enter(soon(t), "x", nonce(turn), "v")
		require.ErrorIs(t, err, engine.ErrGone)
	}
	void := func(turn uint64) {
		t.Helper()
		require.NoError(t, s.Void(soon(t), "x", nonce(turn)))
		stand(0)
	}
	first := asOfNow()
	enter(t, s, "x", nonce(1))
	require.Zero(t, marks(), "a mark costs nothing before it is needed")
	void(1)
	isVoid(first, 1)
	second := asOfNow()
	enter(t, s, "x", nonce(2))
	void(2)
	isVoid(first, 1)
	isVoid(second, 2)

	require.NoError(t, first.Void(soon(t), "x", nonce(1))) // late
	require.Equal(t, 1, marks())
	isVoid(second, 2)
	isVoid(s, 3)
	void(3)
	enter(t, s, "x", nonce(4))
	stand(1)

	fifth := asOfNow()
	require.NoError(t, d.Clear(soon(t), "")) // by an operator
	isVoid(s, 5)
	void(5)
	isVoid(fifth, 5)
	enter(t, s, "x", nonce(6))

	require.NoError(t, s.Void(soon(t), "x", engine.Nonce{Name: "other", Slot: engine.Slots - 1, Turn: 1}))
	require.Equal(t, 2, marks(), "one for each slot")
	require.NoError(t, s.End(soon(t), nil))
	require.Zero(t, marks(), "they go with the lease")
	require.ErrorIs(t, s.Void(soon(t), "x", nonce(30)), engine.ErrOver)
	_, err := (&session{driver: d, id: s.id, single: map[string]bool{}}).Enter(soon(t), "x", nonce(30), "v")
	require.ErrorIs(t, err, engine.ErrOver)
}

// If the outcome of an earlier request is unknown and the request was carried out, an entry might stand: the engine
// voids it.
func TestEntryOfAnEarlierRequestMayStand(t *testing.T) {
	t.Parallel()
	silent := false
	_, s := opened(t, each(func(_ string, req any, send func() error) error {
		if txn, ok := req.(*pb.TxnRequest); ok && silent && len(txn.Compare) == 0 { // the read of the own key
			return errUnavailable
		}
		return send()
	}))
	n := engine.Nonce{Name: "n", Turn: 1}
	enter(t, s, "x", n)
	silent = true
	_, err := s.Enter(soon(t), "x", n, "v")
	require.ErrorIs(t, err, store.ErrUnknownOutcome)
}

// If the context of a call ends before the answer comes, the request might have been carried out.
func TestContextEndsBeforeTheReply(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(soon(t))
	ends := false
	d, _ := opened(t, each(func(_ string, _ any, send func() error) error {
		err := send()
		if ends {
			cancel()
			return status.FromContextError(context.Canceled).Err()
		}
		return err
	}))
	ends = true
	_, err := d.change(ctx, nil, clientv3.OpPut(d.layout.ack("x"), "v"))
	require.ErrorIs(t, err, store.ErrUnknownOutcome)
	require.ErrorIs(t, err, context.Canceled)
}

// An acknowledgement is one request. It replaces what is at the key, even if the lease of another program holds it, and goes
// with the leader's ballot.
func TestAcknowledgementReplacesWhatIsThere(t *testing.T) {
	t.Parallel()
	requests := 0
	d, s := opened(t, each(func(_ string, _ any, send func() error) error { requests++; return send() }))
	other, _, err := d.Open(soon(t))
	require.NoError(t, err)
	for name, holder := range map[string]clientv3.LeaseID{
		"no lease": 0, "its own lease": clientv3.LeaseID(s.id), "another lease": clientv3.LeaseID(other.(*session).id),
	} {
		e := enter(t, s, name, engine.Nonce{Name: "n", Turn: 1})
		write(t, d, clientv3.OpPut(d.layout.ack(name), "another's", clientv3.WithLease(holder)))
		before := requests
		revision, err := s.Acknowledge(soon(t), e, "own")
		require.NoError(t, err)
		require.Equal(t, before+1, requests)
		held := ackOf(t, d, name)
		require.Equal(t, "own", string(held.Value))
		require.Equal(t, []int64{s.id, int64(revision)}, []int64{held.Lease, held.ModRevision})
		require.NoError(t, s.Remove(soon(t), engine.Removal{Entry: e, Led: true, Acknowledged: true, Revision: revision}))
		require.Nil(t, ackOf(t, d, name))
	}
	require.NoError(t, other.End(soon(t), nil))
}

// ackOf returns what is at the acknowledgement's key, or nil.
func ackOf(t *testing.T, d *driver, election string) *mvccpb.KeyValue {
	t.Helper()
	held, _, err := d.readKey(soon(t), d.layout.ack(election))
	require.NoError(t, err)
	return held
}

// Remove deletes the acknowledgement if it is known to be the entry's. If another client has deleted the entry, the revision
// says so. What another session holds stays, even at the same revision, which a restored cluster gives out again.
func TestRemoveLeavesTheAcknowledgementOfOthers(t *testing.T) {
	t.Parallel()
	d, s := opened(t)
	opened, _, err := d.Open(soon(t))
	require.NoError(t, err)
	other, turn := opened.(*session), uint64(0)
	lead := func(s engine.Session, election string) (engine.Entry, uint64) {
		t.Helper()
		turn++
		e := enter(t, s, election, engine.Nonce{Name: fmt.Sprint("n", turn), Turn: turn})
		revision, err := s.Acknowledge(soon(t), e, "v")
		require.NoError(t, err)
		return e, revision
	}
	own := func(own, _ uint64) uint64 { return own }
	unknown := func(_, _ uint64) uint64 { return 0 }
	for name, c := range map[string]struct {
		next     *session // acknowledges after the entry was deleted; nil if no session does
		revision func(own, next uint64) uint64
		alone    bool
		stays    bool
	}{
		"its own":                               {revision: own},
		"its own, of another revision":          {revision: func(own, _ uint64) uint64 { return own - 1 }, alone: true, stays: true},
		"its own, perhaps":                      {revision: unknown, alone: true},
		"perhaps another ballot's":              {revision: unknown, stays: true},
		"another ballot's":                      {s, own, true, true},
		"another session's":                     {other, own, true, true},
		"another session's, of the revision":    {other, func(_, next uint64) uint64 { return next }, true, true},
		"another session's, revision not known": {other, unknown, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			e, own := lead(s, name)
			write(t, d, clientv3.OpDelete(keyOf(e.Key)))
			next := uint64(0)
			if c.next != nil {
				_, next = lead(c.next, name)
			}
			require.NoError(t, s.Remove(soon(t), engine.Removal{
				Entry: e, Led: true, Acknowledged: true, Revision: c.revision(own, next), Alone: func() bool { return c.alone },
			}))
			require.Equal(t, c.stays, ackOf(t, d, name) != nil)
		})
	}
	for holder, stays := range map[clientv3.LeaseID]bool{clientv3.LeaseID(s.id): false, 0: true, clientv3.LeaseID(other.id): true} {
		e := enter(t, s, "stands", engine.Nonce{Name: fmt.Sprint("on", holder), Turn: 1})
		write(t, d, clientv3.OpPut(d.layout.ack("stands"), "v", clientv3.WithLease(holder)))
		require.NoError(t, s.Remove(soon(t), engine.Removal{Entry: e, Led: true, Acknowledged: true}))
		require.Equal(t, stays, ackOf(t, d, "stands") != nil, "on the lease %x", holder)
	}
	require.NoError(t, other.End(soon(t), nil))
}

// An acknowledgement that has changed since it was read might be that of another leader, and stays.
func TestAcknowledgementThatHasChangedIsNotDeleted(t *testing.T) {
	t.Parallel()
	d, s := opened(t)
	put := func() {
		write(t, d, clientv3.OpPut(d.layout.ack("x"), "v", s.onLease()))
	}
	put()
	require.NoError(t, s.Remove(soon(t), engine.Removal{
		Entry:        engine.Entry{Election: "x", Key: entryKey(d.layout.dir("x")+"0-n", 1), Token: 1},
		Acknowledged: true, Alone: func() bool { put(); return true },
	}))
	require.NotNil(t, ackOf(t, d, "x"))
}
