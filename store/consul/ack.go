package consul

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/hashicorp/consul/api"
)

// Acknowledge implements engine.Session. One transaction checks that the ballot stands, and locks the key with the value. A
// ballot that was first and stands is first, since no ballot ever comes before another. The first transaction also marks the
// ballot as first: the next in line then knows that none is ahead once the ballot has gone (BenchmarkResign, with three
// candidates).
//
// If the key exists already, one transaction replaces the key, unless the key has changed since it was read. The holder of the
// key must not be able to lead: no session locks the key, or the ballot's own session does, or a session that had a ballot
// ahead, which has gone. Any other lock belongs to a program that might lead without a ballot, such as docker/leadership.
// Then the error names the session.
//
// After an odd answer the outcome is unknown, and the caller tries again for as long as the term lasts.
func (s *session) Acknowledge(ctx context.Context, e engine.Entry, value string) (revision uint64, err error) {
	st := standingOf(e)
	st.mu.Lock()
	stale := st.revision // index of what is in the way
	own := st.own        // the ballot as it was made, without the mark
	st.own = agent.Entry{}
	st.mu.Unlock()
	for ctx.Err() == nil {
		revision, err := s.putAck(ctx, e, value, own, stale)
		r := agent.RefusalIn(err)
		switch {
		case err == nil:
			st.mu.Lock()
			defer st.mu.Unlock()
			st.revision = max(st.revision, revision)
			return revision, nil
		case r == nil:
			return 0, err
		case r.Failed(0) && own.Exists: // the ballot has changed: it might be marked as first, or called
			own = agent.Entry{}
		case r.Failed(0):
			return 0, s.driver.notListed(ctx, e.Key)
		case r.Says("lock delay"): // of a session with a delay that ours does not have
			adapter.Pause(ctx)
		default:
			found, err := s.driver.client.Get(ctx, s.driver.layout.ack(e.Election))
			if err == nil {
				err = s.mayReplace(ctx, e, found.Entry)
			}
			if err != nil {
				return 0, err
			}
			stale = found.Modify
		}
	}
	return 0, fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
}

// mayReplace returns nil if what is at the acknowledgement's key belongs to no program that might lead.
func (s *session) mayReplace(ctx context.Context, e engine.Entry, found agent.Entry) error {
	d := s.driver
	if found.Session == "" || found.Session == s.id || standingOf(e).before(found.Session) {
		return nil
	}
	list, err := d.queue(ctx, e.Election)
	if err != nil || slices.ContainsFunc(list, func(p *api.KVPair) bool { return p.Session == found.Session }) {
		return err
	}
	return fmt.Errorf("the key %q with the value %q is held by the session %s, which has no ballot in this election: another program leads, or the key is left over",
		d.layout.ack(e.Election), agent.OneLine(found.Value), found.Session)
}

// putAck makes the acknowledgement. If stale is not 0, it replaces the key with that index. A request that comes late, behind
// another, finds another index or none, and changes nothing.
func (s *session) putAck(ctx context.Context, e engine.Entry, value string, own agent.Entry, stale uint64) (revision uint64, err error) {
	key := s.driver.layout.ack(e.Election)
	ops := []*api.KVTxnOp{{Verb: api.KVCheckSession, Key: e.Key, Session: s.id}}
	if own.Exists { // not changed, so still locked by the session
		ops = []*api.KVTxnOp{
			{Verb: api.KVCheckIndex, Key: e.Key, Index: own.Modify},
			{Verb: api.KVSet, Key: e.Key, Value: []byte(own.Value), Flags: own.Flags | isFirst},
		}
	}
	if stale == 0 {
		ops = append(ops, &api.KVTxnOp{Verb: api.KVCheckNotExists, Key: key})
	} else {
		ops = append(ops,
			&api.KVTxnOp{Verb: api.KVCheckIndex, Key: key, Index: stale},
			&api.KVTxnOp{Verb: api.KVDelete, Key: key}, // and with it any other lock
		)
	}
	ops = append(ops, &api.KVTxnOp{Verb: api.KVLock, Key: key, Value: []byte(value), Session: s.id})
	pairs, err := s.driver.client.Commit(ctx, ops...)
	if err != nil {
		return 0, err
	}
	if n := len(pairs); n > 0 && pairs[n-1].Key == key && pairs[n-1].Session == s.id {
		return pairs[n-1].ModifyIndex, nil
	}
	return 0, fmt.Errorf("%w: %w: the token may not read %q, it lacks key:read", store.ErrUnknownOutcome, store.ErrDenied, key)
}
