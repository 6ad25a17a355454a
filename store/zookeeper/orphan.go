package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/go-leadership/leadership/store"
	"github.com/go-zookeeper/zk"
)

// orphan is a ballot that nobody wants any more and that may still stand, in the way of those behind it.
type orphan struct {
	path       string // of the node, where it is known
	dir, nonce string // else what it is found by

	session  *session // nothing is left once it is over; nil where it is not known
	ack      string   // path of the acknowledgement to remove with it; empty where there is none
	revision uint64   // of the acknowledgement; 0 where it is not known
}

// orphans are those that sweep has to remove.
type orphans struct {
	mu    sync.Mutex
	list  []orphan      // guarded by mu, as is count
	count int           // of those that are listed, being removed, or may come of a request under way
	added chan struct{} // has room for one
}

func (o *orphans) add(one orphan) {
	o.expect(1)
	o.put(one)
}

func (o *orphans) put(one orphan) {
	o.mu.Lock()
	o.list = append(o.list, one)
	o.mu.Unlock()
	select {
	case o.added <- struct{}{}:
	default:
	}
}

func (o *orphans) expect(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count += n
}

// open returns how many there are or may be.
func (o *orphans) open() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count
}

func (o *orphans) take() []orphan {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.list
	o.list = nil
	return list
}

// sweep removes orphans until the store has been closed, some at a time, again and again where the server does not
// answer.
func (s *Store) sweep() {
	for s.background.Err() == nil {
		var left sync.WaitGroup
		turns := make(chan struct{}, 32)
		for _, o := range s.orphans.take() {
			turns <- struct{}{}
			left.Go(func() {
				defer func() { <-turns }()
				s.sweepOne(o)
			})
		}
		left.Wait()
		select {
		case <-s.orphans.added:
		case <-s.background.Done():
		}
	}
}

func (s *Store) sweepOne(o orphan) {
	err := s.remove(s.background, o)
	switch {
	case err != nil && uncertain(err) && s.background.Err() == nil:
		s.pause(s.background)
		s.orphans.put(o)
		return
	case err != nil: // it goes with the session
		s.config.Logger.Warn("a ballot could not be removed", "store", s.name, "path", o.path, "error", err)
	}
	s.orphans.expect(-1)
}

// remove removes an orphan with its acknowledgement, and returns nil once both are known to be gone.
func (s *Store) remove(ctx context.Context, o orphan) error {
	if o.session != nil {
		select {
		case <-o.session.lost:
			return nil
		default:
		}
	}
	if o.path == "" {
		nodes, err := s.syncedChildren(ctx, o.dir)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		name, ok := s.layout.find(nodes, o.nonce)
		if !ok {
			return nil
		}
		o.path = o.dir + "/" + name
	}
	if o.ack == "" {
		return s.delete(ctx, o.path)
	}
	results, err := s.multi(ctx, []any{
		&zk.DeleteRequest{Path: o.path, Version: -1},
		&zk.DeleteRequest{Path: o.ack, Version: -1}, // nobody else's while the ballot stands
	})
	switch {
	case err == nil || uncertain(err):
		return err
	case len(results) > 0 && errors.Is(results[0].Error, zk.ErrNoNode):
		return s.removeAck(ctx, o)
	case len(results) > 1 && errors.Is(results[1].Error, zk.ErrNoNode):
		return s.removeUnacknowledged(ctx, o)
	default: // what stands in the acknowledgement's place is not ours to remove
		return s.delete(ctx, o.path)
	}
}

// removeUnacknowledged removes a ballot without an acknowledgement, in a transaction that proves that there is none:
// one may be on its way.
func (s *Store) removeUnacknowledged(ctx context.Context, o orphan) error {
	_, err := s.multi(ctx, []any{
		&zk.CreateRequest{Path: o.ack, Acl: s.acl, Flags: zk.FlagEphemeral},
		&zk.DeleteRequest{Path: o.ack, Version: -1},
		&zk.DeleteRequest{Path: o.path, Version: -1},
	})
	switch {
	case errors.Is(err, zk.ErrNodeExists):
		return fmt.Errorf("%w: acknowledged meanwhile", store.ErrUnavailable) // to be tried again
	case errors.Is(err, zk.ErrNoNode):
		return nil
	}
	return err
}

// delete deletes a node, or finds it gone.
func (s *Store) delete(ctx context.Context, path string) error {
	if _, err := s.await(ctx); err != nil {
		return err
	}
	_, err := request(ctx, s, func() (struct{}, error) { return struct{}{}, s.conn.Delete(path, -1) })
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// removeAck removes an acknowledgement whose ballot is gone, if it is still the same. Here alone somebody else may put
// another in its place: the version tells, unless the leadership changes twice between the reading and the deletion.
func (s *Store) removeAck(ctx context.Context, o orphan) error {
	n, err := request(ctx, s, func() (node, error) {
		data, stat, err := s.conn.Get(o.ack)
		return node{data, stat}, err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case err != nil:
		return err
	case o.session == nil || n.stat.EphemeralOwner != o.session.id,
		o.revision != 0 && uint64(n.stat.Mzxid) != o.revision,
		o.revision == 0 && s.othersAcknowledged(o.ack):
		return nil
	}
	_, err = request(ctx, s, func() (struct{}, error) { return struct{}{}, s.conn.Delete(o.ack, n.stat.Version) })
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) {
		return nil
	}
	return err
}

// othersAcknowledged reports whether the acknowledgement may be that of another ballot of this session, which stands.
func (s *Store) othersAcknowledged(path string) bool {
	s.mu.Lock()
	left := slices.Collect(maps.Keys(s.ballots))
	s.mu.Unlock()
	return slices.ContainsFunc(left, func(b *ballot) bool {
		b.ack.mu.Lock()
		defer b.ack.mu.Unlock()
		return b.Err() == nil && b.ack.tried && b.ackPath() == path
	})
}
