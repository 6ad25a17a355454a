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
	l, err := s.up(ctx)
	if err != nil {
		return err
	}
	if !r.Acknowledged {
		return l.deleteOwn(ctx, r.Key)
	}
	return l.unlessGone(ctx, r.Key, l.removeBoth(ctx, r))
}

// deleteOwn deletes a node of the session's.
func (l *link) deleteOwn(ctx context.Context, path string) error {
	return l.unlessGone(ctx, path, l.delete(ctx, path))
}

// unlessGone returns the error of a removal, or nil if the node is gone. Permission to remove is refused of nodes that do
// not exist, too.
func (l *link) unlessGone(ctx context.Context, path string, err error) error {
	if !errors.Is(err, store.ErrDenied) {
		return err
	}
	_, readErr := request(ctx, l, func(c *zk.Conn) (node, error) { return statEntry(c, path) })
	if errors.Is(readErr, zk.ErrNoNode) {
		return nil
	}
	return err
}

// removeBoth removes a ballot and its acknowledgement in one transaction.
func (l *link) removeBoth(ctx context.Context, r engine.Removal) error {
	err := errChanged
	if r.Revision != 0 { // as a rule no other acknowledgement stands while the ballot does
		err = l.removeWith(ctx, r, &zk.DeleteRequest{Path: l.driver.layout.ackPath(r.Election), Version: -1})
	}
	if errors.Is(err, errChanged) {
		var ops []any
		if ops, err = l.ackRemoval(ctx, r.Election); err == nil {
			err = l.removeWith(ctx, r, ops...)
		}
	}
	if errors.Is(err, errNoBallot) {
		return l.removeAck(ctx, r)
	}
	return err
}

// ackRemoval reads the acknowledgement. If the acknowledgement is the session's, the operations that ackRemoval returns
// remove it. Otherwise they prove that it is not.
func (l *link) ackRemoval(ctx context.Context, election string) ([]any, error) {
	d, path := l.driver, l.driver.layout.ackPath(election)
	n, err := request(ctx, l, func(c *zk.Conn) (node, error) { return readNode(c, path) })
	switch {
	case errors.Is(err, zk.ErrNoNode): // an acknowledgement might be on its way
		return []any{
			&zk.CreateRequest{Path: path, Acl: d.acl, Flags: zk.FlagEphemeral},
			&zk.DeleteRequest{Path: path, Version: -1},
		}, nil
	case err != nil && adapter.Uncertain(err):
		return nil, err
	case err != nil: // the node may not be read, so it is not ours
		return nil, nil
	case n.stat.EphemeralOwner == l.session.id:
		return []any{&zk.DeleteRequest{Path: path, Version: n.stat.Version}}, nil
	}
	return []any{&zk.CheckVersionRequest{Path: path, Version: n.stat.Version}}, nil
}

var (
	// errChanged says that the acknowledgement has changed since a removal read it.
	errChanged = engine.Answered(fmt.Errorf("%w: the acknowledgement has changed meanwhile", store.ErrUnavailable))
	// errNoBallot says that the ballot has been removed before.
	errNoBallot = errors.New("the ballot has gone")
)

// removeWith removes a ballot in one transaction with operations that remove its acknowledgement, or prove that there is
// none. If such an operation is refused for good, the ballot is removed alone: then no acknowledgement of this ballot can
// come any more, and the next leader's replaces an acknowledgement that stands.
func (l *link) removeWith(ctx context.Context, r engine.Removal, ack ...any) error {
	results, err := l.multi(ctx, append([]any{&zk.DeleteRequest{Path: r.Key, Version: -1}}, ack...))
	switch {
	case err == nil || adapter.Uncertain(err) || len(results) == 0:
		return err
	case errors.Is(results[0].Error, zk.ErrNoNode):
		return errNoBallot
	}
	for _, result := range results[1:] {
		for _, change := range []error{zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNotEmpty} {
			if errors.Is(result.Error, change) {
				return errChanged
			}
		}
	}
	return l.delete(ctx, r.Key)
}

// removeAck removes an acknowledgement whose ballot is gone, if the node is still the same. Another acknowledgement might
// replace the node meanwhile: the version tells, unless the leadership changes twice between the read and the deletion.
func (l *link) removeAck(ctx context.Context, r engine.Removal) error {
	path := l.driver.layout.ackPath(r.Election)
	n, err := request(ctx, l, func(c *zk.Conn) (node, error) { return readNode(c, path) })
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case err != nil:
		return err
	case n.stat.EphemeralOwner != l.session.id,
		r.Revision != 0 && uint64(n.stat.Mzxid) != r.Revision,
		r.Revision == 0 && !r.Alone():
		return nil
	}
	err = do(ctx, l, func(c *zk.Conn) error { return c.Delete(path, n.stat.Version) })
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) {
		return nil
	}
	return err
}

// delete deletes a node. A node that has gone is no error.
func (l *link) delete(ctx context.Context, path string) error {
	err := do(ctx, l, func(c *zk.Conn) error { return c.Delete(path, -1) })
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}
