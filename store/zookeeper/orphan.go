package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-leadership/leadership/internal/adapter"
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

// Over implements adapter.Orphan.
func (o orphan) Over() bool { return o.session != nil && o.session.over() }

// abandonFor gives up the session of an orphan that may not be removed. A connection of the caller's goes on. Other
// ballots of the session get to know the reason in words alone: it is not they that were refused.
func (s *Store) abandonFor(o orphan, err error) {
	if o.session == nil && !s.ownedNow(&o) {
		return
	}
	if s.config.Conn != nil {
		s.config.Logger.Warn("a ballot can't be removed, and stands until the session of the caller's connection ends",
			"store", s.life.Name, "path", o.path, "error", err)
		return
	}
	if s.abandon(o.session, fmt.Errorf("a ballot could not be removed: %v", err)) {
		s.cut(errAbandoned)
		s.config.Logger.Warn("a ballot can't be removed, so the session ends", "store", s.life.Name, "path", o.path, "error", err)
	}
}

// ownedNow finds out the session of an orphan of which it is not known, and reports false where the node is gone or
// another session's than the present one. Permission to remove is refused of nodes that do not exist, too.
func (s *Store) ownedNow(o *orphan) bool {
	s.mu.Lock()
	o.session = s.current
	s.mu.Unlock()
	if o.session == nil || o.path == "" {
		return o.session != nil
	}
	stat, err := request(s.life.Background, s, func() (*zk.Stat, error) {
		_, stat, err := s.conn.Exists(o.path)
		return stat, err
	})
	return err != nil || stat.EphemeralOwner == o.session.id
}

// remove removes an orphan with its acknowledgement, and returns nil once both are known to be gone. Where the session
// was abandoned before it is over, the error says why.
func (s *Store) remove(ctx context.Context, o orphan) error {
	if o.Over() {
		return o.session.left
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
	switch {
	case o.ack == "":
		return s.delete(ctx, o.path)
	case o.revision == 0:
		return s.removeDoubtful(ctx, o)
	}
	results, err := s.multi(ctx, []any{
		&zk.DeleteRequest{Path: o.path, Version: -1},
		&zk.DeleteRequest{Path: o.ack, Version: -1}, // nobody else's while the ballot stands
	})
	switch {
	case err == nil || adapter.Uncertain(err):
		return err
	case len(results) > 0 && errors.Is(results[0].Error, zk.ErrNoNode):
		return s.removeAck(ctx, o)
	case len(results) > 1 && errors.Is(results[1].Error, zk.ErrNoNode):
		return s.removeUnacknowledged(ctx, o)
	default: // what stands in the acknowledgement's place is not ours to remove
		return s.delete(ctx, o.path)
	}
}

// removeDoubtful removes a ballot of which it is not known whether it has acknowledged. What another session holds in
// the acknowledgement's place stays, and the transaction proves that it has not changed since it was read: an
// acknowledgement might be on its way.
func (s *Store) removeDoubtful(ctx context.Context, o orphan) error {
	n, err := request(ctx, s, func() (node, error) {
		data, stat, err := s.conn.Get(o.ack)
		return node{data, stat}, err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return s.removeUnacknowledged(ctx, o)
	case err != nil && adapter.Uncertain(err):
		return err
	case err != nil: // it may not be read, so it is not ours
		return s.delete(ctx, o.path)
	}
	ack := any(&zk.CheckVersionRequest{Path: o.ack, Version: n.stat.Version})
	if n.stat.EphemeralOwner == o.session.id {
		ack = &zk.DeleteRequest{Path: o.ack, Version: n.stat.Version}
	}
	results, err := s.multi(ctx, []any{&zk.DeleteRequest{Path: o.path, Version: -1}, ack})
	switch {
	case err == nil || adapter.Uncertain(err):
		return err
	case len(results) > 0 && errors.Is(results[0].Error, zk.ErrNoNode):
		return s.removeAck(ctx, o)
	case len(results) > 1 && (errors.Is(results[1].Error, zk.ErrNoNode) || errors.Is(results[1].Error, zk.ErrBadVersion)):
		return fmt.Errorf("%w: the acknowledgement has changed meanwhile", store.ErrUnavailable) // to be tried again
	default:
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
