package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-leadership/leadership/internal/redact"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-zookeeper/zk"
)

// Acknowledge implements engine.Session. One transaction checks that the ballot exists and creates the node. A ballot that
// has been first stays first until it goes, so its existence is proof enough.
//
// If the node exists already, and mayReplace allows it, one transaction replaces the node.
func (s *session) Acknowledge(ctx context.Context, e engine.Entry, value string) (revision uint64, err error) {
	l, err := s.up(ctx)
	if err != nil {
		return 0, err
	}
	ack := s.driver.layout.ackPath(e.Election)
	stale := int32(-1) // version of the node to replace; -1: none
	for ctx.Err() == nil {
		revision, err := l.putAck(ctx, e, value, stale)
		switch {
		case err == nil:
			return revision, nil
		case errors.Is(err, zk.ErrNodeExists): // it outlived its ballot, or is this session's
			n, err := request(ctx, l, func(c *zk.Conn) (node, error) { return readNode(c, ack) })
			if errors.Is(err, zk.ErrNoNode) {
				stale = -1
				continue
			}
			if err != nil {
				return 0, err
			}
			if err := l.mayReplace(ctx, e, n); err != nil {
				return 0, err
			}
			stale = n.stat.Version
		case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode): // the node has changed meanwhile
			stale = -1
		case errors.Is(err, zk.ErrNotEmpty): // an acknowledgement is ephemeral, and has no children
			return 0, fmt.Errorf("%s was made by another program and is in the way: delete it with all below it: %w", ack, err)
		default:
			return 0, err
		}
	}
	return 0, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, context.Cause(ctx))
}

// putAck creates the acknowledgement. If stale is not -1, it replaces the node with that version. The new node's version is 1
// or 2 and differs from stale, so a late request to delete the old node fails. The value is set after the creation because
// only SetData returns the node's Stat, which has the revision.
func (l *link) putAck(ctx context.Context, e engine.Entry, value string, stale int32) (revision uint64, err error) {
	ack, data := l.driver.layout.ackPath(e.Election), []byte(value)
	ops := []any{&zk.CheckVersionRequest{Path: e.Key, Version: -1}}
	if stale >= 0 {
		ops = append(ops, &zk.DeleteRequest{Path: ack, Version: stale})
	}
	set := &zk.SetDataRequest{Path: ack, Data: data, Version: -1}
	ops = append(ops, &zk.CreateRequest{Path: ack, Data: data, Acl: l.driver.acl, Flags: zk.FlagEphemeral}, set)
	if stale == 1 {
		ops = append(ops, set)
	}
	results, err := l.multi(ctx, ops)
	if len(results) == len(ops) {
		if errors.Is(results[0].Error, zk.ErrNoNode) {
			return 0, engine.ErrGone
		}
		if stat := results[len(ops)-1].Stat; err == nil && stat != nil {
			return uint64(stat.Mzxid), nil
		}
	}
	if err == nil {
		err = fmt.Errorf("%w: the server's answer to the transaction has %d parts", store.ErrUnknownOutcome, len(results))
	}
	return 0, err
}

// multi carries out a transaction. The answer has a part for each operation, even if the transaction has failed.
func (l *link) multi(ctx context.Context, ops []any) ([]zk.MultiResponse, error) {
	return request(ctx, l, func(c *zk.Conn) ([]zk.MultiResponse, error) { return c.Multi(ops...) })
}

// mayReplace returns nil if the node of an acknowledgement belongs to no session, to the ballot's session, or to a session
// that has or had a ballot: that one leads only while its ballot is first. Any other session might belong to a program that
// leads without a ballot. The error names the session. The node goes when that session ends.
func (l *link) mayReplace(ctx context.Context, e engine.Entry, ack node) error {
	d, owner := l.driver, ack.stat.EphemeralOwner
	if owner == 0 || owner == l.session.id || d.candidates.known(owner) {
		return nil
	}
	queue, err := l.readQueue(ctx, d.layout.dir(e.Election))
	if err != nil {
		return err
	}
	if slices.ContainsFunc(queue, func(n node) bool { return n.stat.EphemeralOwner == owner }) {
		return nil
	}
	return fmt.Errorf("%s with the value %q is held by session %#x, which has no ballot in this election: another program leads, or the session is left over",
		d.layout.ackPath(e.Election), redact.Shorten(string(ack.data)), uint64(owner))
}
