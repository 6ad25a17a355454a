package consul

import (
	"context"
	"fmt"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/redact"
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
// The flags of the key have the token of the ballot (ackFlags). So if the key exists already, they say whose it is: one transaction
// replaces the key, unless it has changed since it was read, if no session locks it, if the ballot's own session does, or if
// it is of an earlier ballot, which has gone. Any other lock belongs to a program that might lead without a ballot, such as
// docker/leadership. Then the error names the session.
//
// After an odd answer the outcome is unknown, and the caller tries again for as long as the term lasts.
func (s *session) Acknowledge(ctx context.Context, e engine.Entry, value string) (revision uint64, err error) {
	d, st := s.driver, standingOf(e)
	key := d.layout.ack(e.Election)
	stale, made := st.revision.Load(), st.made.Swap(nil) // stale is the index of what is in the way
	for ctx.Err() == nil {
		revision, err := s.putAck(ctx, e, value, made, stale)
		r := agent.RefusalIn(err)
		switch {
		case err == nil:
			st.revision.Store(revision)
			return revision, nil
		case r == nil:
			return 0, err
		case r.Failed(0) && made != nil: // the ballot has changed: it might be marked as first, or called
			made = nil
		case r.Failed(0):
			return 0, d.notListed(ctx, e.Key)
		case r.Says("lock delay"): // of a session with a delay that ours does not have
			adapter.Pause(ctx)
		default:
			found, err := d.client.Get(ctx, key)
			if err != nil {
				return 0, err
			}
			if found.Session != "" && found.Session != s.id && !isEarlierAck(found.Flags, e.Token) {
				return 0, fmt.Errorf("the key %q with the value %q is held by the session %s, and is no acknowledgement of an earlier ballot: another program leads, or the key is left over",
					key, redact.Shorten(found.Value), found.Session)
			}
			stale = found.Modify
		}
	}
	return 0, fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
}

// putAck makes the acknowledgement. made is the ballot, if it may be as it was made. If stale is not 0, it replaces the key with
// that index. A request that comes late, behind another, finds another index or none, and changes nothing.
func (s *session) putAck(ctx context.Context, e engine.Entry, value string, made *agent.Entry, stale uint64) (revision uint64, err error) {
	key := s.driver.layout.ack(e.Election)
	ops := []*api.KVTxnOp{{Verb: api.KVCheckSession, Key: e.Key, Session: s.id}}
	if made != nil { // not changed, so still locked by the session
		ops = []*api.KVTxnOp{
			{Verb: api.KVCheckIndex, Key: e.Key, Index: made.Modify},
			{Verb: api.KVSet, Key: e.Key, Value: []byte(made.Value), Flags: made.Flags | isFirst},
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
	ops = append(ops, &api.KVTxnOp{Verb: api.KVLock, Key: key, Value: []byte(value), Flags: ackFlags(e.Token), Session: s.id})
	pairs, err := s.driver.client.Commit(ctx, ops...)
	if err != nil {
		return 0, err
	}
	if n := len(pairs); n > 0 && pairs[n-1].Key == key && pairs[n-1].Session == s.id {
		return pairs[n-1].ModifyIndex, nil
	}
	return 0, fmt.Errorf("%w: %w: the token may not read %q, it lacks key:read", store.ErrUnknownOutcome, store.ErrDenied, key)
}
