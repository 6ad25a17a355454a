package etcd

import (
	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Fence returns the condition that the ballot stands, for a leader's own transactions in the cluster that elects it:
// clientv3.Txn.If takes it. Fence sends nothing. Call it with the ballot of a term:
//
//	stands, err := etcd.Fence(term.Ballot())
//
// The service carries the transaction out only while the ballot stands, in the order of all its changes. The ballot was
// first when the term began, no ballot ever comes before another, and no other is first while this one stands. So a write
// that arrives after the next leader has taken over is refused, whatever the clocks say: no lease or clock is read.
// If the transaction is refused although no other condition failed, the ballot has gone, and so has the term.
//
// What to look out for:
//   - If the condition fails, etcd carries out nothing of Then. A program that then writes without the condition has no
//     fence.
//   - After an error of Commit, the transaction might have been carried out, or might be later. It is sent again only with
//     the condition, and must do no harm if it is carried out twice.
//   - The condition holds until the ballot is given back: also while the term is over and the leader's work winds down.
//     Ask IsLeader first to stop early.
//   - The program's client must speak to the same cluster, and its user must be allowed to read the ballot's key. A client
//     that adds a prefix of its own, as those of etcd's package namespace do, compares another key: it is always refused.
//   - A service that is restored from an old copy of its data might have a ballot again that had gone.
//
// Fence refuses with store.ErrNotFirst a ballot whose Wait has not returned nil, and with errors.ErrUnsupported a ballot
// of another store.
func Fence(b store.Ballot) (clientv3.Cmp, error) { return adapter.Condition[clientv3.Cmp](b, "etcd") }

// Condition implements engine.Conditioner.
func (s *session) Condition(e engine.Entry) any { return stands(e)[0] }
