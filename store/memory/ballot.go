package memory

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-leadership/leadership/store"
)

// ballot implements store.Ballot.
type ballot struct {
	store    *Store
	session  *clientSession
	election string
	entry    *entry

	ctx   context.Context // ends when the ballot is lost, also with its session, with the cause
	end   context.CancelCauseFunc
	first atomic.Bool // Wait has returned nil
}

// Campaign implements store.Store.
func (s *Store) Campaign(ctx context.Context, election, value string) (store.Ballot, error) {
	if err := store.CheckElection(election); err != nil {
		return nil, err
	}
	if err := store.CheckValue(value); err != nil {
		return nil, err
	}
	ctx, done, err := s.life.Call(ctx)
	if err != nil {
		return nil, s.life.Fail("campaign", election, err)
	}
	defer done()
	b, err := s.cast(ctx, election, value)
	if err != nil {
		return nil, s.life.Fail("campaign", election, err)
	}
	return b, nil
}

// cast casts one ballot, again with the same nonce where the outcome is unknown, so that there is never a second.
func (s *Store) cast(ctx context.Context, election, value string) (*ballot, error) {
	s.mu.Lock()
	s.nonce++
	nonce := s.nonce
	s.mu.Unlock()
	for {
		sess, err := s.awaitSession(ctx)
		if err != nil {
			return nil, err
		}
		var e *entry
		err = s.faults.call(ctx, func() { e = s.service.cast(sess.id, nonce, election, value) })
		if ctx.Err() != nil {
			s.life.Go(func() { s.discard(sess, nonce) })
			return nil, context.Cause(ctx)
		}
		if err != nil {
			continue
		}
		if e == nil { // the session is over and the store does not know yet
			select {
			case <-sess.over.Done():
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		b := &ballot{store: s, session: sess, election: election, entry: e}
		b.ctx, b.end = context.WithCancelCause(sess.over)
		if !s.life.Go(b.watch) {
			return nil, store.ErrClosed
		}
		return b, nil
	}
}

// discard removes the ballot that may have been cast with the nonce, for as long as its session lives.
func (s *Store) discard(sess *clientSession, nonce uint64) {
	for s.life.Calls.Err() == nil {
		select {
		case <-sess.over.Done():
			return
		default:
		}
		if s.faults.call(s.life.Calls, func() { s.service.withdrawNonce(sess.id, nonce) }) == nil {
			return
		}
	}
}

// watch learns that the ballot was removed.
func (b *ballot) watch() {
	select {
	case <-b.entry.gone:
		if b.store.faults.notified(b.ctx) == nil {
			b.lose("it was removed")
		}
	case <-b.ctx.Done():
	}
}

func (b *ballot) lose(why string) { b.end(fmt.Errorf("%w: %s", store.ErrLost, why)) }

// Token implements store.Ballot.
func (b *ballot) Token() uint64 { return b.entry.token }

// Lease implements store.Ballot.
func (b *ballot) Lease() *store.Lease { return b.session.lease }

// Lost implements store.Ballot.
func (b *ballot) Lost() <-chan struct{} { return b.ctx.Done() }

// Err implements store.Ballot.
func (b *ballot) Err() error {
	err := context.Cause(b.ctx)
	if errors.Is(err, store.ErrClosed) {
		err = fmt.Errorf("%w: %w", store.ErrLost, err)
	}
	return b.store.life.Fail("stand", b.election, err)
}

// Wait implements store.Ballot.
func (b *ballot) Wait(ctx context.Context) error {
	ctx, done, err := b.call(ctx)
	if err != nil {
		return b.store.life.Fail("wait", b.election, err)
	}
	defer done()
	for {
		var before *entry
		var stands bool
		err := b.store.faults.call(ctx, func() { before, stands = b.store.service.ahead(b.entry) })
		switch {
		case b.Err() != nil:
			return b.Err()
		case ctx.Err() != nil:
			return b.store.life.Fail("wait", b.election, context.Cause(ctx))
		case err != nil:
		case !stands:
			b.lose("it was removed")
			return b.Err()
		case before == nil:
			b.first.Store(true)
			return b.Err()
		default:
			b.store.await(ctx, before.gone)
		}
	}
}

// call is the store's call, which ends with the ballot too.
func (b *ballot) call(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := b.Err(); err != nil {
		return nil, nil, err
	}
	ctx, done, err := b.store.life.Call(ctx)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(b.ctx, func() { cancel(b.Err()) })
	return ctx, func() { stop(); cancel(nil); done() }, nil
}

// Acknowledge implements store.Ballot.
func (b *ballot) Acknowledge(ctx context.Context, value string) (store.Leader, error) {
	if err := store.CheckValue(value); err != nil {
		return store.Leader{}, err
	}
	ctx, done, err := b.call(ctx)
	if err != nil {
		return store.Leader{}, b.store.life.Fail("acknowledge", b.election, err)
	}
	defer done()
	if !b.first.Load() {
		return store.Leader{}, b.store.life.Fail("acknowledge", b.election, store.ErrNotFirst)
	}
	var leader store.Leader
	var refused error
	err = b.store.faults.call(ctx, func() { leader, refused = b.store.service.acknowledge(b.entry, value) })
	if err == nil {
		err = refused
	}
	if errors.Is(refused, store.ErrLost) {
		b.lose("it was removed")
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", store.ErrUnknownOutcome, context.Cause(ctx))
	}
	if err != nil {
		return store.Leader{}, b.store.life.Fail("acknowledge", b.election, err)
	}
	return leader, nil
}

// Withdraw implements store.Ballot.
func (b *ballot) Withdraw(ctx context.Context) error {
	call, done, err := b.store.life.Call(ctx)
	if err != nil {
		b.store.life.Go(func() { b.store.discard(b.session, b.entry.nonce) })
		b.lose("it was withdrawn")
		return b.store.life.Fail("withdraw", b.election, err)
	}
	defer done()
	select {
	case <-b.session.over.Done(): // and the ballot with it
		return nil
	default:
	}
	b.lose("it was withdrawn")
	for call.Err() == nil {
		err = b.store.faults.call(call, func() { b.store.service.withdraw(b.entry) })
		if err == nil {
			return nil
		}
	}
	b.store.life.Go(func() { b.store.discard(b.session, b.entry.nonce) })
	return b.store.life.Fail("withdraw", b.election, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, context.Cause(call)))
}
