package zookeeper

import (
	"context"
	"errors"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-zookeeper/zk"
)

// Remove implements engine.Session. A ballot with a known acknowledgement is removed with it in one transaction. If that
// fails, or it is unknown whether the ballot has acknowledged, the ballot is removed first. Then no acknowledgement of this
// ballot can come any more, and the one that stands is removed.
func (s *session) Remove(ctx context.Context, r engine.Removal) error {
	l, err := s.up(ctx)
	if err != nil {
		return err
	}
	if r.Revision != 0 { // no other acknowledgement stands while the ballot does, unless an operator has put one there
		ack := s.driver.layout.ackPath(r.Election)
		_, err := l.multi(ctx, []any{&zk.DeleteRequest{Path: r.Key, Version: -1}, &zk.DeleteRequest{Path: ack, Version: -1}})
		if err == nil || adapter.Uncertain(err) {
			return err
		}
	}
	if err := l.deleteOwn(ctx, r.Key); err != nil || !r.Acknowledged {
		return err
	}
	return l.removeAck(ctx, r)
}

// deleteOwn deletes a node of the session's. Servers refuse permission to remove a node that does not exist, too.
func (l *link) deleteOwn(ctx context.Context, path string) error {
	err := l.delete(ctx, path, -1)
	if !errors.Is(err, store.ErrDenied) {
		return err
	}
	_, readErr := request(ctx, l, func(c *zk.Conn) (node, error) { return statEntry(c, path) })
	if errors.Is(readErr, zk.ErrNoNode) {
		return nil
	}
	return err
}

// removeAck removes the acknowledgement of a ballot that has gone. The node is the ballot's if it is the session's and has
// the revision. If the revision is unknown, no other ballot of the session may have acknowledged. Another acknowledgement
// might replace the node meanwhile: the version tells, unless the leadership changes twice between the read and the
// deletion.
func (l *link) removeAck(ctx context.Context, r engine.Removal) error {
	path := l.driver.layout.ackPath(r.Election)
	for {
		n, err := request(ctx, l, func(c *zk.Conn) (node, error) { return readNode(c, path) })
		switch {
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, store.ErrDenied): // a node that may not be read is another client's
			return nil
		case err != nil:
			return err
		case n.stat.EphemeralOwner != l.session.id,
			r.Revision != 0 && uint64(n.stat.Mzxid) != r.Revision,
			r.Revision == 0 && !r.Alone():
			return nil
		}
		if err := l.delete(ctx, path, n.stat.Version); !errors.Is(err, zk.ErrBadVersion) {
			return err
		}
	}
}

// delete deletes a node with this version; -1 is any. A node that has gone is no error.
func (l *link) delete(ctx context.Context, path string, version int32) error {
	_, err := request(ctx, l, func(c *zk.Conn) (struct{}, error) { return struct{}{}, c.Delete(path, version) })
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}
