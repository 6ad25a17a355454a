package zookeeper

import (
	"context"
	"errors"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-zookeeper/zk"
)

// Remove implements engine.Session. If the revision of the acknowledgement is known, one transaction removes it with the
// ballot. If that fails, or the revision is unknown, Remove deletes the ballot first. From then on no acknowledgement of
// this ballot can be created, so one that exists can be read and deleted.
func (s *session) Remove(ctx context.Context, r engine.Removal) error {
	l, err := s.up(ctx)
	if err != nil {
		return err
	}
	if r.Revision != 0 { // while the ballot exists, the acknowledgement is its own, unless an operator has replaced it
		ack := s.driver.ackPath(r.Election)
		_, err := l.multi(ctx, []any{&zk.DeleteRequest{Path: r.Key, Version: -1}, &zk.DeleteRequest{Path: ack, Version: -1}})
		if err == nil || adapter.Uncertain(err) {
			return err
		}
	}
	if err := l.delete(ctx, r.Key, -1); err != nil || !r.Acknowledged {
		return err
	}
	return l.removeAck(ctx, r)
}

// removeAck deletes the acknowledgement of a ballot that has gone. The node must belong to the session and have the
// revision. If the revision is unknown, no other ballot of the session may have acknowledged in this election. If another
// leader replaces the node between the read and the deletion, its version differs, unless two leaders do.
func (l *link) removeAck(ctx context.Context, r engine.Removal) error {
	path := l.driver.ackPath(r.Election)
	for {
		n, err := request(ctx, l, func(c *zk.Conn) (node, error) { return present(readNode(c, path)) })
		switch {
		case errors.Is(err, store.ErrDenied): // the node is another's: this session may read its own
			return nil
		case err != nil:
			return err
		case n.stat == nil, n.stat.EphemeralOwner != l.session.id,
			r.Revision != 0 && uint64(n.stat.Mzxid) != r.Revision,
			r.Revision == 0 && !r.Alone():
			return nil
		}
		if err := l.delete(ctx, path, n.stat.Version); !errors.Is(err, zk.ErrBadVersion) {
			return err
		}
	}
}

// delete deletes a node with a version; -1 stands for any. It returns nil if the node does not exist.
func (l *link) delete(ctx context.Context, path string, version int32) error {
	_, err := request(ctx, l, func(c *zk.Conn) (struct{}, error) { return struct{}{}, c.Delete(path, version) })
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}
