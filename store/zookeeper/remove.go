package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-zookeeper/zk"
)

// Remove implements engine.Session.
func (s *session) Remove(ctx context.Context, r engine.Removal) error {
	if err := s.await(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	s.leave(r.Private.(*standing))
	s.mu.Unlock()
	var err error
	switch {
	case !r.Acknowledged:
		err = s.driver.delete(ctx, r.Key)
	case r.Revision == 0:
		err = s.removeDoubtful(ctx, r)
	default: // no other acknowledgement stands while the ballot does
		err = s.removeBoth(ctx, r, &zk.DeleteRequest{Path: s.driver.layout.ackPath(r.Election), Version: -1})
	}
	return s.unlessGone(ctx, r.Key, err)
}

// unlessGone returns the error of a removal, or nil if the node is gone or another session's. Permission to remove is
// refused of nodes that do not exist, too.
func (s *session) unlessGone(ctx context.Context, path string, err error) error {
	if !errors.Is(err, store.ErrDenied) {
		return err
	}
	d := s.driver
	stat, readErr := request(ctx, d, func() (*zk.Stat, error) {
		_, stat, err := d.conn.Exists(path)
		return stat, err
	})
	if readErr == nil && stat.EphemeralOwner != s.id {
		return nil
	}
	return err
}

// removeDoubtful removes a ballot of which it is not known whether it has acknowledged. What another session holds at
// the acknowledgement's place stays, and the transaction proves that it has not changed since it was read: an
// acknowledgement might be on its way.
func (s *session) removeDoubtful(ctx context.Context, r engine.Removal) error {
	path := s.driver.layout.ackPath(r.Election)
	n, err := request(ctx, s.driver, func() (node, error) { return s.driver.readNode(path) })
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return s.removeUnacknowledged(ctx, r)
	case err != nil && adapter.Uncertain(err):
		return err
	case err != nil: // it may not be read, so it is not ours
		return s.driver.delete(ctx, r.Key)
	case n.stat.EphemeralOwner == s.id:
		return s.removeBoth(ctx, r, &zk.DeleteRequest{Path: path, Version: n.stat.Version})
	}
	return s.removeBoth(ctx, r, &zk.CheckVersionRequest{Path: path, Version: n.stat.Version})
}

// removeBoth removes a ballot in one transaction with what ack does to its acknowledgement, or checks of another's.
func (s *session) removeBoth(ctx context.Context, r engine.Removal, ack any) error {
	results, err := s.multi(ctx, []any{&zk.DeleteRequest{Path: r.Key, Version: -1}, ack})
	refused := func(i int, why error) bool { return i < len(results) && errors.Is(results[i].Error, why) }
	switch {
	case err == nil || adapter.Uncertain(err) || errors.Is(err, engine.ErrOver):
		return err
	case refused(0, zk.ErrNoNode):
		return s.removeAck(ctx, r)
	case refused(1, zk.ErrNoNode):
		return s.removeUnacknowledged(ctx, r)
	case refused(1, zk.ErrBadVersion):
		return fmt.Errorf("%w: the acknowledgement has changed meanwhile", store.ErrUnavailable) // to be tried again
	}
	return s.driver.delete(ctx, r.Key) // what stands at the acknowledgement's place is not ours to remove
}

// removeUnacknowledged removes a ballot without an acknowledgement, in a transaction that proves that there is none:
// one may be on its way.
func (s *session) removeUnacknowledged(ctx context.Context, r engine.Removal) error {
	path := s.driver.layout.ackPath(r.Election)
	_, err := s.multi(ctx, []any{
		&zk.CreateRequest{Path: path, Acl: s.driver.acl, Flags: zk.FlagEphemeral},
		&zk.DeleteRequest{Path: path, Version: -1},
		&zk.DeleteRequest{Path: r.Key, Version: -1},
	})
	switch {
	case errors.Is(err, zk.ErrNodeExists):
		return fmt.Errorf("%w: acknowledged meanwhile", store.ErrUnavailable) // to be tried again
	case errors.Is(err, zk.ErrNoNode):
		return nil
	}
	return err
}

// removeAck removes an acknowledgement whose ballot is gone, if it is still the same. Only here another may come in its
// place meanwhile: the version tells, unless the leadership changes twice between the reading and the deletion.
func (s *session) removeAck(ctx context.Context, r engine.Removal) error {
	d, path := s.driver, s.driver.layout.ackPath(r.Election)
	n, err := request(ctx, d, func() (node, error) { return d.readNode(path) })
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case err != nil:
		return err
	case n.stat.EphemeralOwner != s.id,
		r.Revision != 0 && uint64(n.stat.Mzxid) != r.Revision,
		r.Revision == 0 && !r.Alone():
		return nil
	}
	_, err = request(ctx, d, func() (struct{}, error) { return struct{}{}, d.conn.Delete(path, n.stat.Version) })
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) {
		return nil
	}
	return err
}

// delete deletes a node, or finds it gone. On a caller's connection there might be no session whose answers count.
func (d *driver) delete(ctx context.Context, path string) error {
	if d.config.Conn == nil {
		if _, err := d.await(ctx); err != nil {
			return err
		}
	}
	_, err := request(ctx, d, func() (struct{}, error) { return struct{}{}, d.conn.Delete(path, -1) })
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}
