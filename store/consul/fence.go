package consul

import (
	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/hashicorp/consul/api"
)

// Fence returns the condition that the ballot stands, for a leader's own transactions in the datacenter that elects it:
// make it the first operation of api.KV.Txn or api.Txn.Txn. Fence sends nothing. Call it with the ballot of a term:
//
//	stands, err := consul.Fence(term.Ballot())
//
// The service carries the transaction out only while the ballot stands, in the order of all its changes. The ballot was
// first when the term began, no ballot ever comes before another, and no other is first while this one stands. So a write
// that arrives after the next leader has taken over is refused, whatever the clocks say: no lease or clock is read.
// If operation 0 is among the errors of a transaction that is refused, the ballot has gone, and so has the term. The
// condition is that the store's session has the ballot's key locked. No other key ever has its name, which has a nonce in it.
//
// What to look out for:
//   - If the condition fails, Consul carries out nothing of the transaction. A program that then writes without the
//     condition has no fence.
//   - After an error of Txn, the transaction might have been carried out, or might be later. It is sent again only with the
//     condition, and must do no harm if it is carried out twice.
//   - The condition holds until the ballot is given back: also while the term is over and the leader's work winds down.
//     Ask IsLeader first to stop early.
//   - The program's client must speak to the same datacenter, and its token must be allowed to read the ballot's key. The
//     condition names the namespace and the partition of the store's Config. If the Config names none, the client must have
//     those of the store's token, or it checks another key: it is always refused.
//   - A service that is restored from an old copy of its data might have a ballot again that had gone.
//
// Fence refuses with store.ErrNotFirst a ballot whose Wait has not returned nil, and with errors.ErrUnsupported a ballot
// of another store.
func Fence(b store.Ballot) (*api.KVTxnOp, error) {
	return adapter.Condition[*api.KVTxnOp](b, "Consul")
}

// Condition implements engine.Conditioner.
func (s *session) Condition(e engine.Entry) any {
	c := s.driver.config
	return &api.KVTxnOp{
		Verb: api.KVCheckSession, Key: e.Key, Session: s.id, Namespace: c.Namespace, Partition: c.Partition,
	}
}
