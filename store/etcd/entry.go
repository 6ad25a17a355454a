package etcd

import (
	"context"
	"fmt"

	"github.com/go-leadership/leadership/store/engine"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// stands is the condition that the entry does.
func stands(e engine.Entry) []clientv3.Cmp {
	return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(keyOf(e.Key)), "=", int64(e.Token))}
}

// Enter implements engine.Session. It is one transaction: the key is put if it does not exist and the nonce is not void,
// and what is ahead is the key that was created last before it. The cost does not grow with the number of ballots.
func (s *session) Enter(ctx context.Context, election string, n engine.Nonce, value string) (engine.Entry, error) {
	dir := s.driver.layout.dir(election)
	key := dir + ballotName(s.id, n.Name)
	resp, err := s.txn(ctx,
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0), s.notVoid(n)},
		[]clientv3.Op{nearest(dir), clientv3.OpPut(key, value, s.onLease())},
		[]clientv3.Op{clientv3.OpGet(key, clientv3.WithKeysOnly())})
	if err != nil {
		return engine.Entry{}, err
	}
	e := engine.Entry{Election: election, Token: uint64(resp.Header.Revision)}
	if !resp.Succeeded { // an earlier request was carried out
		own := resp.Responses[0].GetResponseRange().Kvs
		if len(own) == 0 {
			return engine.Entry{}, fmt.Errorf("%w: it was deleted at once", engine.ErrGone)
		}
		e.Token = uint64(own[0].CreateRevision)
	}
	e.Key = entryKey(key, int64(e.Token))
	foreign := int64(1)
	if resp.Succeeded {
		e.Place, foreign = placeIn(dir, resp.Responses[0].GetResponseRange())
	}
	if foreign != 0 {
		e.Place, err = s.driver.Ahead(ctx, e)
	}
	return e, err
}

// A mark for each slot of the session says which turns of the slot are void: that turn and all before it. It is put when
// the first one is, and goes with the lease. A request that is late finds the mark, or one that is higher.

// notVoid is the condition that the turn of the nonce is not void.
func (s *session) notVoid(n engine.Nonce) clientv3.Cmp {
	mark := s.driver.layout.void(s.id, n.Slot)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.marked[n.Slot] {
		return clientv3.Compare(clientv3.CreateRevision(mark), "=", 0)
	}
	return clientv3.Compare(clientv3.Value(mark), "<", turn(n))
}

// turn is the value of a mark. Marks are compared as text.
func turn(n engine.Nonce) string { return fmt.Sprintf("%016x", n.Turn) }

// setMarked says whether there is a mark.
func (s *session) setMarked(slot int, marked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marked[slot] = marked
}

// Void implements engine.Session. After a restore, the entry might be one that was acknowledged and withdrawn before.
func (s *session) Void(ctx context.Context, election string, n engine.Nonce) error {
	key := s.driver.layout.dir(election) + ballotName(s.id, n.Name)
	mark, ack := s.driver.layout.void(s.id, n.Slot), s.driver.layout.ack(election)
	for {
		resp, err := s.txn(ctx, []clientv3.Cmp{s.notVoid(n)},
			[]clientv3.Op{clientv3.OpGet(ack), clientv3.OpDelete(key), clientv3.OpPut(mark, turn(n), s.onLease())},
			[]clientv3.Op{clientv3.OpGet(ack), clientv3.OpGet(mark)})
		if err != nil {
			return err
		}
		if !resp.Succeeded {
			marks := resp.Responses[1].GetResponseRange().Kvs
			s.setMarked(n.Slot, len(marks) > 0)
			if len(marks) == 0 || string(marks[0].Value) < turn(n) { // the condition was another
				continue
			}
		}
		s.setMarked(n.Slot, true)
		found := resp.Responses[0].GetResponseRange().Kvs
		if len(found) == 0 || found[0].Lease != s.id || s.acknowledgedIn(election) {
			return nil
		}
		return s.deleteAck(ctx, found[0])
	}
}

// Remove implements engine.Session. What another session holds at the acknowledgement's key stays.
func (s *session) Remove(ctx context.Context, r engine.Removal) error {
	err := s.remove(ctx, r)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.acknowledged, r.Key)
	}
	return err
}

func (s *session) remove(ctx context.Context, r engine.Removal) error {
	own, ack := keyOf(r.Key), s.driver.layout.ack(r.Election)
	ballot := clientv3.OpDelete(own)
	if !r.Acknowledged {
		_, err := s.txn(ctx, stands(r.Entry), []clientv3.Op{ballot}, nil)
		return err
	}
	state := clientv3.Compare(clientv3.LeaseValue(ack), "=", clientv3.LeaseID(s.id))
	then := []clientv3.Op{ballot, clientv3.OpDelete(ack)}
	for {
		resp, err := s.txn(ctx, append(stands(r.Entry), state), then,
			[]clientv3.Op{clientv3.OpGet(own, clientv3.WithKeysOnly()), clientv3.OpGet(ack)})
		if err != nil || resp.Succeeded {
			return err
		}
		left, kvs := resp.Responses[0].GetResponseRange().Kvs, resp.Responses[1].GetResponseRange().Kvs
		found := new(mvccpb.KeyValue) // of revision 0, if there is none
		if len(kvs) > 0 {
			found = kvs[0]
		}
		if len(left) == 0 || left[0].CreateRevision != int64(r.Token) { // deleted by another client
			if len(kvs) > 0 && s.isOf(found, r) {
				return s.deleteAck(ctx, found)
			}
			return nil
		}
		state = clientv3.Compare(clientv3.ModRevision(ack), "=", found.ModRevision)
		if then = []clientv3.Op{ballot}; found.Lease == 0 || found.Lease == s.id {
			then = append(then, clientv3.OpDelete(ack))
		}
	}
}

// isOf reports whether what is at the acknowledgement's key is that of an entry which has gone: if it has that revision,
// or, if the revision is not known, if it is of the session and of no other entry.
func (s *session) isOf(found *mvccpb.KeyValue, r engine.Removal) bool {
	if r.Revision != 0 {
		return found.ModRevision == int64(r.Revision)
	}
	// Others of this session which acknowledge later than they are asked here make it another revision.
	return found.Lease == s.id && r.Alone()
}

// deleteAck deletes what was found at an acknowledgement's key, unless it has changed.
func (s *session) deleteAck(ctx context.Context, found *mvccpb.KeyValue) error {
	ack := string(found.Key)
	_, err := s.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(ack), "=", found.ModRevision)},
		[]clientv3.Op{clientv3.OpDelete(ack)}, nil)
	return err
}

// acknowledgedIn reports whether an entry that stands may have been acknowledged.
func (s *session) acknowledgedIn(election string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.acknowledged {
		if e == election {
			return true
		}
	}
	return false
}
