package etcd

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// stands is the condition that the entry exists.
func stands(e engine.Entry) []clientv3.Cmp {
	return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(keyOf(e.Key)), "=", int64(e.Token))}
}

// Enter implements engine.Session. It is one transaction: the key is put if there is no such key and the nonce is not void.
// What is ahead is the key that was created last before. The cost does not grow with the number of ballots. The same
// transaction looks for candidates that would not wait for the entry (peers.go).
func (s *session) Enter(ctx context.Context, election string, n engine.Nonce, value string) (engine.Entry, error) {
	d := s.driver
	name, key := d.layout.ack(election), d.layout.dir(election)+ballotName(s.id, n.Name)
	if err := s.twinless(ctx, name); err != nil {
		return engine.Entry{}, err
	}
	resp, err := d.change(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0), s.notVoid(n)},
		append(below(name), d.nearest(election), clientv3.OpPut(key, value, s.onLease()))...)
	if err != nil {
		return engine.Entry{}, err
	}
	e, found := engine.Entry{Election: election, Token: uint64(resp.Header.Revision)}, ranges(resp)
	if !resp.Succeeded { // an earlier request was carried out
		if found, _, err = d.read(ctx, nil, append(below(name), clientv3.OpGet(key))...); err != nil { // the entry might stand
			return engine.Entry{}, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
		}
		own := first(found[2])
		if own == nil {
			return engine.Entry{}, fmt.Errorf("%w: it was deleted at once", engine.ErrGone)
		}
		e.Token = uint64(own.CreateRevision)
	}
	e.Key = entryKey(key, int64(e.Token))
	if err = alone(name, peers(name, found[:2])); err != nil {
		return e, err
	}
	if resp.Succeeded {
		e.Place, err = d.place(ctx, e, found[2])
	} else {
		e.Place, err = d.Ahead(ctx, e)
	}
	return e, err
}

// A mark for each slot of the session keeps late requests to enter from making an entry: Void puts the mark again, and a
// request to enter is carried out only if the mark has the revision that the session knows. There is no mark before the first
// Void, and all marks go with the lease. A restored cluster might have lost a mark, and a late request to void might have put
// a mark again. Then the next request to enter is refused, and Void is called for that nonce.

// notVoid is the condition that no turn of the slot has been made void since the last one that the session knows of.
func (s *session) notVoid(n engine.Nonce) clientv3.Cmp {
	s.mu.Lock()
	defer s.mu.Unlock()
	return clientv3.Compare(clientv3.ModRevision(s.driver.layout.void(s.id, n.Slot)), "=", s.voided[n.Slot])
}

// Void implements engine.Session.
func (s *session) Void(ctx context.Context, election string, n engine.Nonce) error {
	key, mark := s.driver.layout.dir(election)+ballotName(s.id, n.Name), s.driver.layout.void(s.id, n.Slot)
	resp, err := s.driver.change(ctx, nil, clientv3.OpDelete(key), clientv3.OpPut(mark, "", s.onLease()))
	switch {
	case errors.Is(err, store.ErrDenied): // etcd does not say what it denies
		return fmt.Errorf("%w: this needs write permission on %q and %q", err, key, mark)
	case err != nil:
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.voided[n.Slot] = resp.Header.Revision
	return nil
}

// Acknowledge implements engine.Session. It is one transaction: the ballot exists, and the value is put on the same lease. A
// ballot that was first and exists is still first, since no ballot ever comes before it. So what is at the key is no other
// leader's of this queue, and is replaced, even if the lease of another program holds it
// (TestAcknowledgementReplacesWhatIsThere).
func (s *session) Acknowledge(ctx context.Context, e engine.Entry, value string) (revision uint64, err error) {
	resp, err := s.driver.change(ctx, stands(e), clientv3.OpPut(s.driver.layout.ack(e.Election), value, s.onLease()))
	switch {
	case err != nil:
		return 0, err
	case !resp.Succeeded:
		return 0, engine.ErrGone
	}
	return uint64(resp.Header.Revision), nil
}

// Remove implements engine.Session. It leaves an acknowledgement that another session holds, or that belongs to another
// ballot of this session (TestRemoveLeavesTheAcknowledgementOfOthers).
func (s *session) Remove(ctx context.Context, r engine.Removal) error {
	ack := s.driver.layout.ack(r.Election)
	remove := []clientv3.Op{clientv3.OpDelete(keyOf(r.Key))}
	if r.Acknowledged {
		own := []clientv3.Cmp{clientv3.Compare(clientv3.LeaseValue(ack), "=", clientv3.LeaseID(s.id))}
		remove = append(remove, clientv3.OpTxn(own, []clientv3.Op{clientv3.OpDelete(ack)}, nil))
	}
	resp, err := s.driver.change(ctx, stands(r.Entry), remove...)
	if err != nil || resp.Succeeded || !r.Acknowledged {
		return err
	}
	// Another client has deleted the entry. The key is the entry's acknowledgement if this session holds the key, and the
	// revision is that of the acknowledgement or, if that is not known, no other ballot might have acknowledged. The revision
	// alone is no proof: a restored cluster gives a revision out again. If another ballot acknowledges after Alone was asked,
	// the key has a later revision, and stays.
	held, _, err := s.driver.readKey(ctx, ack)
	if held.GetLease() != s.id || r.Revision != 0 && held.ModRevision != int64(r.Revision) || r.Revision == 0 && !r.Alone() {
		return err
	}
	_, err = s.driver.change(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(ack), "=", held.ModRevision)}, clientv3.OpDelete(ack))
	return err
}
