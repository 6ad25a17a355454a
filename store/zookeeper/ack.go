package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-leadership/leadership/internal/redact"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-zookeeper/zk"
)

// Acknowledge implements engine.Session. One transaction checks that the ballot exists and creates the node. A ballot that
// has been first stays first until it goes, so its existence is proof enough.
//
// If the node exists already, one transaction replaces the node: the ballot decides who leads, and no known program leads by
// this node without a ballot. If an operator deletes a leader's ballot, the leader's session, and its acknowledgement, stay
// until its work has stopped (TestAcknowledgementInTheWay).
func (s *session) Acknowledge(ctx context.Context, e engine.Entry, value string) (revision uint64, err error) {
	l, err := s.up(ctx)
	if err != nil {
		return 0, err
	}
	d, ack := s.driver, s.driver.ackPath(e.Election)
	stale := int32(-1) // version of the node to replace; -1: none
	for {
		revision, err := l.putAck(ctx, e, value, stale)
		switch {
		case errors.Is(err, zk.ErrNodeExists): // it outlived its ballot, or is this session's
			n, err := request(ctx, l, func(c *zk.Conn) (node, error) { return readNode(c, ack) })
			switch {
			case errors.Is(err, zk.ErrNoNode):
				stale = -1
				continue
			case err != nil:
				return 0, err
			}
			if stale = n.stat.Version; n.stat.EphemeralOwner != 0 && n.stat.EphemeralOwner != s.id {
				d.lifecycle.Warn(d.config.Logger, "the acknowledgement of another session stands, and is replaced", "path", ack,
					"session", sessionName(n.stat.EphemeralOwner), "value", redact.Shorten(string(n.data)))
			}
		case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode): // the node has changed meanwhile
			stale = -1
		case errors.Is(err, zk.ErrNotEmpty): // an acknowledgement is ephemeral, and has no children
			return 0, fmt.Errorf("%s was made by another program and is in the way: delete it with all below it: %w", ack, err)
		default:
			return revision, err
		}
	}
}

// putAck creates the acknowledgement. If stale is not -1, it replaces the node with that version. The new node's version is 1
// or 2 and differs from stale, so a late request to delete the old node fails. The value is set after the creation because
// only SetData returns the node's Stat, which has the revision.
func (l *link) putAck(ctx context.Context, e engine.Entry, value string, stale int32) (revision uint64, err error) {
	ack, data := l.driver.ackPath(e.Election), []byte(value)
	ops := []any{&zk.CheckVersionRequest{Path: e.Key, Version: -1}}
	if stale >= 0 {
		ops = append(ops, &zk.DeleteRequest{Path: ack, Version: stale})
	}
	set := &zk.SetDataRequest{Path: ack, Data: data, Version: -1}
	ops = append(ops, &zk.CreateRequest{Path: ack, Data: data, Acl: acls[l.driver.config.ACL], Flags: zk.FlagEphemeral}, set)
	if stale == 1 {
		ops = append(ops, set)
	}
	results, err := l.multi(ctx, ops)
	switch {
	case len(results) > 0 && errors.Is(results[0].Error, zk.ErrNoNode):
		return 0, engine.ErrGone
	case err != nil:
		return 0, err
	case len(results) != len(ops) || results[len(ops)-1].Stat == nil:
		return 0, fmt.Errorf("%w: the server's answer to the transaction has %d parts", store.ErrUnknownOutcome, len(results))
	}
	return uint64(results[len(ops)-1].Stat.Mzxid), nil
}

// multi carries out a transaction. The answer has a part for each operation, even if the transaction has failed.
func (l *link) multi(ctx context.Context, ops []any) ([]zk.MultiResponse, error) {
	return request(ctx, l, func(c *zk.Conn) ([]zk.MultiResponse, error) { return c.Multi(ops...) })
}
