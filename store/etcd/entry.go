package etcd

import (
	"cmp"
	"context"
	"fmt"

	"github.com/go-leadership/leadership/store"
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
	resp, err := s.change(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0), s.notVoid(n)},
		nearest(dir), clientv3.OpPut(key, value, s.onLease()))
	if err != nil {
		return engine.Entry{}, err
	}
	e := engine.Entry{Election: election, Token: uint64(resp.Header.Revision)}
	if !resp.Succeeded { // an earlier request was carried out
		found, _, err := s.driver.read(ctx, nil, clientv3.OpGet(key, clientv3.WithKeysOnly()))
		if err != nil { // the entry might stand
			return engine.Entry{}, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
		}
		own := first(found[0])
		if own == nil {
			return engine.Entry{}, fmt.Errorf("%w: it was deleted at once", engine.ErrGone)
		}
		e.Token = uint64(own.CreateRevision)
	}
	e.Key = entryKey(key, int64(e.Token))
	known := false
	if resp.Succeeded {
		e.Place, known = placeIn(dir, resp.Responses[0].GetResponseRange())
	}
	if !known {
		e.Place, err = s.driver.Ahead(ctx, e)
	}
	return e, err
}

// A mark for each slot of the session keeps late requests to enter from making an entry: Void puts it again, and a request
// to enter asks for the revision that it had when the slot's turn began. There is none before the first Void, and all go
// with the lease. If the mark is another one than the session knows of, because a restored cluster has lost it or a late
// request to void has put it again, the next entry of the slot is refused, and Void is called for that.

// notVoid is the condition that no turn of the slot has been made void since the last one that the session knows of.
func (s *session) notVoid(n engine.Nonce) clientv3.Cmp {
	s.mu.Lock()
	defer s.mu.Unlock()
	return clientv3.Compare(clientv3.ModRevision(s.driver.layout.void(s.id, n.Slot)), "=", s.voided[n.Slot])
}

// Void implements engine.Session.
func (s *session) Void(ctx context.Context, election string, n engine.Nonce) error {
	key := s.driver.layout.dir(election) + ballotName(s.id, n.Name)
	resp, err := s.change(ctx, nil, clientv3.OpDelete(key), clientv3.OpPut(s.driver.layout.void(s.id, n.Slot), "", s.onLease()))
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.voided[n.Slot] = resp.Header.Revision
	return nil
}

// Remove implements engine.Session. What another session holds at the acknowledgement's key stays
// (TestRemoveOfAnEntryThatStands), and what another ballot of this session has acknowledged (TestRemoveOfAWaiter).
func (s *session) Remove(ctx context.Context, r engine.Removal) error {
	own, ack := keyOf(r.Key), s.driver.layout.ack(r.Election)
	if !r.Acknowledged {
		_, err := s.change(ctx, stands(r.Entry), clientv3.OpDelete(own))
		return err
	}
	state := clientv3.Compare(clientv3.LeaseValue(ack), "=", clientv3.LeaseID(s.id))
	changes := []clientv3.Op{clientv3.OpDelete(own), clientv3.OpDelete(ack)}
	for {
		resp, err := s.change(ctx, append(stands(r.Entry), state), changes...)
		if err != nil || resp.Succeeded {
			return err
		}
		left, held, err := s.driver.ballotAndAck(ctx, r.Entry)
		switch {
		case err != nil:
			return err
		case !left && s.isOf(held, r): // deleted by another client
			return s.deleteAck(ctx, held)
		case !left:
			return nil
		}
		state = clientv3.Compare(clientv3.ModRevision(ack), "=", held.ModRevision)
		if changes = changes[:1]; held.Lease == 0 || held.Lease == s.id {
			changes = changes[:2]
		}
	}
}

// ballotAndAck reads whether the entry stands, and what is at the acknowledgement's key. If nothing is there, held has
// the revision 0.
func (d *driver) ballotAndAck(ctx context.Context, e engine.Entry) (stands bool, held *mvccpb.KeyValue, err error) {
	found, _, err := d.read(ctx, nil,
		clientv3.OpGet(keyOf(e.Key), clientv3.WithKeysOnly()), clientv3.OpGet(d.layout.ack(e.Election)))
	if err != nil {
		return false, nil, err
	}
	return first(found[0]).GetCreateRevision() == int64(e.Token), cmp.Or(first(found[1]), new(mvccpb.KeyValue)), nil
}

// isOf reports whether what is at the acknowledgement's key is that of an entry which has gone: if it is of the session,
// and has that revision, or, if the revision is not known, if it is of no other entry. The revision alone is no proof: a
// cluster that is restored gives it out again.
func (s *session) isOf(held *mvccpb.KeyValue, r engine.Removal) bool {
	switch {
	case held.Lease != s.id:
		return false
	case r.Revision != 0:
		return held.ModRevision == int64(r.Revision)
	}
	return r.Alone() // others that acknowledge later than this is asked make it another revision
}

// deleteAck deletes what was found at an acknowledgement's key, unless it has changed.
func (s *session) deleteAck(ctx context.Context, found *mvccpb.KeyValue) error {
	ack := string(found.Key)
	_, err := s.change(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(ack), "=", found.ModRevision)}, clientv3.OpDelete(ack))
	return err
}
