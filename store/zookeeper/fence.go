package zookeeper

import (
	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-zookeeper/zk"
)

// Fence returns the condition that the ballot stands, for a leader's own transactions in the ensemble that elects it:
// make it the first operation of zk.Conn.Multi. Fence sends nothing. Call it with the ballot of a term:
//
//	stands, err := zookeeper.Fence(term.Ballot())
//
// The service carries the transaction out only while the ballot stands, in the order of all its changes. The ballot was
// first when the term began, no ballot ever comes before another, and no other is first while this one stands. So a write
// that arrives after the next leader has taken over is refused, whatever the clocks say: no lease or clock is read.
// If the first result's error is zk.ErrNoNode, the ballot has gone, and so has the term. The condition is that the
// ballot's node exists. No other node ever has its name, which has a nonce in it.
//
// What to look out for:
//   - If the condition fails, ZooKeeper carries out nothing of the transaction. A program that then writes without the
//     condition has no fence.
//   - After zk.ErrConnectionClosed the transaction might have been carried out, or might be later. It is sent again only
//     with the condition, and must do no harm if it is carried out twice.
//   - The condition holds until the ballot is given back, even if the term is over and the leader's work winds down. Ask
//     IsLeader first to stop early.
//   - The program's client must speak to the same ensemble, and must be allowed to read the ballot's node: with the
//     default ACL of a store that has a user, only a client of the same user is. The path in the condition is absolute, with
//     the store's chroot. A client with a chroot of its own checks another path: it is always refused.
//   - A service that is restored from an old copy of its data might have a ballot again that had gone.
//
// Fence refuses with store.ErrNotFirst a ballot whose Wait has not returned nil, and with errors.ErrUnsupported a ballot
// of another store.
func Fence(b store.Ballot) (*zk.CheckVersionRequest, error) {
	return adapter.Condition[*zk.CheckVersionRequest](b, "ZooKeeper")
}

// Condition implements engine.Conditioner.
func (s *session) Condition(e engine.Entry) any {
	return &zk.CheckVersionRequest{Path: e.Key, Version: -1}
}
