package etcd

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
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

// marks returns the revisions of the marks of the session, by slot.
func (s *session) marks(t *testing.T) map[string]int64 {
	t.Helper()
	prefix := s.driver.layout.prefix + "/_void/" + s.ID() + "-"
	found, _, err := s.driver.read(soon(t), nil, clientv3.OpGet(prefix, clientv3.WithPrefix()))
	require.NoError(t, err)
	list := map[string]int64{}
	for _, kv := range found[0].Kvs {
		list[string(kv.Key[len(prefix):])] = kv.ModRevision
	}
	return list
}

// asOfNow is a session with the requests that this one would send now, which arrive late.
func (s *session) asOfNow() *session {
	return &session{driver: s.driver, id: s.id, voided: s.voided}
}

// Once a turn of a slot is void, no late request creates an entry of this turn or an earlier one, also if requests to
// void arrive late. The next turn stands, at the latest once it was void itself.
func TestVoid(t *testing.T) {
	t.Parallel()
	d, s := opened(t)
	nonce := func(turn uint64) engine.Nonce {
		return engine.Nonce{Name: fmt.Sprintf("nonce%d", turn), Slot: 3, Turn: turn}
	}
	enters := func(turn uint64) {
		t.Helper()
		enter(t, s, "x", nonce(turn))
	}
	isVoid := func(s *session, turn uint64) {
		t.Helper()
		_, err := s.Enter(soon(t), "x", nonce(turn), "v")
		require.ErrorIs(t, err, engine.ErrGone)
	}
	standing := func() int {
		t.Helper()
		list, err := d.Ballots(soon(t), "x")
		require.NoError(t, err)
		return len(list)
	}
	first := s.asOfNow()
	enters(1)
	require.Empty(t, s.marks(t), "a mark costs nothing before it is needed")
	require.NoError(t, s.Void(soon(t), "x", nonce(1)))
	require.Zero(t, standing())
	isVoid(first, 1)
	second := s.asOfNow()
	enters(2)
	enters(2)
	require.Equal(t, 1, standing())
	require.NoError(t, s.Void(soon(t), "x", nonce(2)))
	require.Zero(t, standing())
	isVoid(first, 1)
	isVoid(second, 2)

	require.NoError(t, first.Void(soon(t), "x", nonce(1))) // late
	require.Len(t, s.marks(t), 1)
	isVoid(second, 2)
	isVoid(s, 3)
	third := s.asOfNow()
	require.NoError(t, s.Void(soon(t), "x", nonce(3)))
	isVoid(third, 3)
	enters(4)
	require.Equal(t, 1, standing())

	// An operator deletes everything below the prefix.
	fifth := s.asOfNow()
	require.NoError(t, d.Clear(soon(t), ""))
	isVoid(s, 5)
	require.NoError(t, s.Void(soon(t), "x", nonce(5)))
	isVoid(fifth, 5)
	enters(6)
	require.Equal(t, 1, standing())

	for slot := range engine.Slots {
		for turn := range uint64(3) {
			n := engine.Nonce{Name: fmt.Sprint("slot", slot, turn), Slot: slot, Turn: turn + 20}
			require.NoError(t, s.Void(soon(t), strconv.Itoa(slot), n))
		}
	}
	marks := s.marks(t)
	require.Len(t, marks, engine.Slots)
	for slot, revision := range s.voided {
		require.Equal(t, marks[strconv.Itoa(slot)], revision)
	}
	require.NoError(t, s.End(soon(t), nil))
	require.Empty(t, s.marks(t), "they go with the lease")
	require.ErrorIs(t, s.Void(soon(t), "x", nonce(30)), engine.ErrOver)
	_, err := (&session{driver: d, id: s.id}).Enter(soon(t), "x", nonce(30), "v")
	require.ErrorIs(t, err, engine.ErrOver)
}

// If the outcome of an earlier request is unknown and the request was carried out, an entry might stand: the engine
// voids it.
func TestEntryOfAnEarlierRequestMayStand(t *testing.T) {
	t.Parallel()
	silent := false
	_, s := opened(t, each(func(method string, req any, send func() error) error {
		txn, ok := req.(*pb.TxnRequest)
		if ok && silent && len(txn.Success) == 1 { // the read of the own key
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
		e := enter(t, s, election, engine.Nonce{Name: fmt.Sprint("n", turn), Turn: turn})
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
			write(t, d, clientv3.OpDelete(keyOf(e.Key)))
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
			e := enter(t, s, name, engine.Nonce{Name: "n", Turn: 1})
			write(t, d, clientv3.OpPut(d.layout.ack(name), "v", c.holder...))
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
	leader := enter(t, s, "x", engine.Nonce{Name: "leader", Slot: 1, Turn: 1})
	waiter := enter(t, s, "x", engine.Nonce{Name: "waiter", Slot: 2, Turn: 1})
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
		write(t, d, clientv3.OpPut(d.layout.ack("x"), "v", s.onLease()))
	}
	put()
	require.NoError(t, s.Remove(soon(t), engine.Removal{
		Entry:        engine.Entry{Election: "x", Key: entryKey(d.layout.dir("x")+"0-n", 1), Token: 1},
		Acknowledged: true, Alone: func() bool { put(); return true },
	}))
	held, _, err := d.readKey(soon(t), d.layout.ack("x"))
	require.NoError(t, err)
	require.NotNil(t, held)
}
