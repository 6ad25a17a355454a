package zookeeper

import (
	"context"
	"errors"
	"sync"

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
	list  []orphan      // guarded by mu
	added chan struct{} // has room for one
}

func (o *orphans) add(one orphan) {
	o.mu.Lock()
	o.list = append(o.list, one)
	o.mu.Unlock()
	select {
	case o.added <- struct{}{}:
	default:
	}
}

func (o *orphans) take() []orphan {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.list
	o.list = nil
	return list
}

// sweep removes orphans until the store is closed, again and again where the server does not answer.
func (s *Store) sweep() {
	for {
		for _, o := range s.orphans.take() {
			err := s.remove(s.ctx, o)
			switch {
			case err == nil:
			case uncertain(err):
				s.orphans.add(o)
				s.pause(s.ctx)
			default: // it goes with the session
				s.config.Logger.Warn("a ballot could not be removed", "store", s.name, "path", o.path, "error", err)
			}
		}
		select {
		case <-s.orphans.added:
		case <-s.ctx.Done():
			return
		}
	}
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
	case !errors.Is(err, zk.ErrNoNode):
		return err
	case len(results) > 0 && errors.Is(results[0].Error, zk.ErrNoNode):
		return s.removeAck(ctx, o)
	default:
		return s.delete(ctx, o.path)
	}
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

// removeAck removes an acknowledgement whose ballot is gone, if it is still the same. Here alone somebody else may
// have put another in its place; between the reading and the deletion nothing but the version tells.
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
		o.revision != 0 && uint64(n.stat.Mzxid) != o.revision:
		return nil
	}
	_, err = request(ctx, s, func() (struct{}, error) { return struct{}{}, s.conn.Delete(o.ack, n.stat.Version) })
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) {
		return nil
	}
	return err
}
