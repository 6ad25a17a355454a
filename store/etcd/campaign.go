package etcd

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Campaign implements store.Store. With a lease it takes one round trip: the ballot is put and the queue listed in one
// transaction. Where the service can't be reached for longer than the TTL it gives up, so that its caller can say so,
// and try again.
func (s *Store) Campaign(ctx context.Context, election, value string) (store.Ballot, error) {
	if err := errors.Join(store.CheckElection(election), store.CheckValue(value)); err != nil {
		return nil, err
	}
	ctx, done, err := s.life.Call(ctx)
	if err != nil {
		return nil, s.life.Fail("campaign", election, err)
	}
	defer done()
	ctx, cancel := context.WithTimeoutCause(ctx, s.long(), store.ErrUnavailable)
	defer cancel()
	for {
		b, err := s.cast(ctx, election, value)
		if err == nil {
			return b, nil
		}
		if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return nil, s.life.Fail("campaign", election, err)
		}
	}
}

// cast casts one ballot. The error ErrLeaseNotFound says that the session was over; there is a new one by the next
// call.
func (s *Store) cast(ctx context.Context, election, value string) (*ballot, error) {
	sess, err := s.openSession(ctx)
	if err != nil {
		return nil, adapter.NotCast(err)
	}
	b := &ballot{Ballot: adapter.NewBallot(s.life, election), store: s, session: sess, name: ballotName(sess.id, s.mark)}
	b.key = s.layout.dir(election) + b.name
	s.own(b.key)
	if err := b.enter(ctx, value); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.ballots[b] = struct{}{}
	s.mu.Unlock()
	b.predecessors = b.ahead
	if !s.life.Go(b.run) || s.life.Calls.Err() != nil {
		return nil, store.ErrClosed // which has revoked the lease
	}
	return b, nil
}

// enter puts the ballot and finds its place. The transaction may be sent again after an unknown outcome: it puts the
// key only where it does not exist, and nothing once the key has been made void.
func (b *ballot) enter(ctx context.Context, value string) error {
	s := b.store
	dir, void := s.layout.dir(b.Election), s.layout.void(b.Election, b.name)
	list := clientv3.OpGet(dir, clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	doubt := false // whether an earlier request may have been carried out, or is going to be
	var last error
	for {
		resp, err := s.txn(ctx,
			[]clientv3.Cmp{
				clientv3.Compare(clientv3.CreateRevision(b.key), "=", 0),
				clientv3.Compare(clientv3.CreateRevision(void), "=", 0),
			},
			[]clientv3.Op{clientv3.OpPut(b.key, value, clientv3.WithLease(clientv3.LeaseID(b.session.id))), list},
			[]clientv3.Op{clientv3.OpGet(b.key, clientv3.WithKeysOnly()), list})
		switch {
		case err == nil:
			b.token = uint64(resp.Header.Revision)
			if !resp.Succeeded { // an earlier request was carried out
				own := resp.Responses[0].GetResponseRange().Kvs
				if len(own) == 0 {
					s.disown(b.key)
					return fmt.Errorf("%w: the ballot was deleted at once", store.ErrUnavailable)
				}
				b.token = uint64(own[0].CreateRevision)
			}
			b.ahead, _ = ahead(b.queue(resp.Responses[1].GetResponseRange().Kvs), int64(b.token))
			return b.lead()
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			s.lose(b.session)
			s.disown(b.key)
			return err
		case ctx.Err() != nil || !adapter.Uncertain(err):
			if doubt || ctx.Err() != nil {
				s.orphans.Add(orphan{ballot: b, unknown: true})
			} else {
				s.disown(b.key)
			}
			return because(err, last)
		}
		last = err
		doubt = doubt || errors.Is(err, store.ErrUnknownOutcome)
		adapter.Pause(ctx)
	}
}
