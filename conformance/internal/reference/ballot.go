package reference

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/go-leadership/leadership/store"
)

// ballot implements store.Ballot.
type ballot struct {
	store    *Store
	session  *clientSession
	election string
	value    string
	key      *key
	number   uint64 // of those that the store has cast
	snapshot []*key // what stood before it was cast: AheadBeforeBallot

	ctx       context.Context // ends when the ballot is lost, also with its session, with the cause
	end       context.CancelCauseFunc
	first     atomic.Bool // Wait has returned nil
	acked     atomic.Bool
	withdrawn atomic.Bool
	asked     chan struct{} // closed by watch when an operator has asked for a resignation
}

var (
	errPlain     = errors.New("it did not work")
	errRemoved   = fmt.Errorf("%w: it was removed", store.ErrLost)
	errWithdrawn = fmt.Errorf("%w: it was withdrawn", store.ErrLost)
)

// watch waits until the ballot is removed.
func (b *ballot) watch() {
	s := b.store
	ctx, stop := context.WithCancel(b.ctx)
	defer stop()
	defer context.AfterFunc(s.life.Background, stop)()
	asked := false
	for ctx.Err() == nil && !s.has(OwnRemovalUnseen) {
		var k *key
		var changed <-chan struct{}
		err := s.line.Send(ctx, func() { k, changed = s.service.get(b.key.name) })
		switch {
		case err != nil:
		case k == nil || k.created != b.key.created:
			b.end(errRemoved)
		default:
			if k.asked && !asked && !s.has(RequestUnseen) {
				asked = true
				close(b.asked)
			}
			s.line.await(ctx, changed)
		}
	}
}

// ResignationRequested implements store.Ballot.
func (b *ballot) ResignationRequested() <-chan struct{} { return b.asked }

// SessionFile implements store.Ballot.
func (b *ballot) SessionFile() (*os.File, error) { return nil, nil }

// Clear implements store.Store.
func (s *Store) Clear(ctx context.Context, election string) error {
	_, err := repeat(ctx, s.life, "clear", election, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.line.call(ctx, func() { s.service.Clear(election) })
	})
	return err
}

// RequestResignation implements store.Store.
func (s *Store) RequestResignation(ctx context.Context, election string, token uint64) error {
	_, err := repeat(ctx, s.life, "request the resignation", election, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.line.call(ctx, func() {
			for _, k := range s.queue(election) {
				switch {
				case s.token(k) != token && !s.has(RequestToAll):
				case s.has(RequestRemoves):
					s.service.removeBallot(k.name, func(*key) bool { return true }, election, func(*key) bool { return true })
				default:
					s.service.ask(k.name)
				}
			}
		})
	})
	return err
}

// Token implements store.Ballot.
func (b *ballot) Token() uint64 {
	if b.store.has(TokenOfClient) {
		return b.number
	}
	return b.store.token(b.key)
}

// Lease implements store.Ballot.
func (b *ballot) Lease() *store.Lease { return b.session.lease }

// Lost implements store.Ballot.
func (b *ballot) Lost() <-chan struct{} {
	if b.store.has(LostNeverClosed) {
		return nil
	}
	return b.ctx.Done()
}

// Err implements store.Ballot.
func (b *ballot) Err() error {
	err := context.Cause(b.ctx)
	if err != nil && b.store.has(ErrUnmatched) {
		err = errPlain
	}
	return b.store.life.Fail("stand", b.election, err)
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

// Wait implements store.Ballot.
func (b *ballot) Wait(ctx context.Context) error {
	s := b.store
	switch s.service.flaw {
	case FirstThoughLost:
		if b.first.Load() {
			return nil
		}
	case WaitIgnoresContext:
		ctx = s.service.over
	case CallsOutliveClose:
		if b.Err() == nil && s.life.Calls.Err() == nil {
			return b.wait(ctx)
		}
	}
	ctx, done, err := b.call(ctx)
	if err == nil {
		defer done()
		err = b.wait(ctx)
	}
	return s.life.Fail("wait", b.election, err)
}

func (b *ballot) wait(ctx context.Context) error {
	s := b.store
	if s.has(AheadBeforeBallot) {
		if len(b.snapshot) == 0 {
			return b.lead(ctx)
		}
		b.waitFor(ctx, b.snapshot[len(b.snapshot)-1])
	}
	for {
		before, stands, changed, err := b.ahead(ctx)
		switch {
		case b.Err() != nil && !s.has(CallsOutliveClose):
			return b.Err()
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
		case !stands:
			b.end(errRemoved)
			return b.Err()
		case before == nil:
			return b.lead(ctx)
		case s.has(WakesEverybody):
			s.line.await(ctx, changed)
		default:
			b.waitFor(ctx, before)
			if s.has(GapPromotes) && ctx.Err() == nil {
				return b.lead(ctx)
			}
		}
	}
}

// ahead returns the ballot just before, nil if b is first, and whether b stands at all.
func (b *ballot) ahead(ctx context.Context) (before *key, stands bool, changed <-chan struct{}, err error) {
	s := b.store
	err = s.line.call(ctx, func() {
		before, stands = nil, false
		_, changed = s.service.list(s.directory(b.election)) // first, so that no change is missed
		for _, k := range s.queue(b.election) {
			if k.name == b.key.name {
				stands = true
				break
			}
			if k.session != b.session.id || !s.has(OwnBallotsSkipped) {
				before = k
			}
		}
	})
	return before, stands, changed, err
}

// waitFor waits until the ballot before it changes or goes, or ctx ends. It reads and watches in one request.
func (b *ballot) waitFor(ctx context.Context, before *key) {
	s := b.store
	for {
		var k *key
		var changed <-chan struct{}
		err := s.line.call(ctx, func() { k, changed = s.service.get(before.name) })
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			continue
		case (k == nil || k.created != before.created) && !(s.has(WatchAfterList) && s.line.Delayed()):
			return
		}
		s.line.await(ctx, changed)
		if !s.has(GapPromotes) {
			return
		}
	}
}

// lead makes the ballot first.
func (b *ballot) lead(ctx context.Context) error {
	if err := b.Err(); err != nil {
		return err
	}
	b.first.Store(true)
	if b.store.has(AcknowledgedWhenFirst) {
		_, err := b.Acknowledge(ctx, b.value)
		return err
	}
	return nil
}

// Acknowledge implements store.Ballot.
func (b *ballot) Acknowledge(ctx context.Context, value string) (store.Leader, error) {
	leader, err := b.acknowledge(ctx, value)
	if err != nil && b.store.has(OutcomeDenied) && errors.Is(err, store.ErrUnknownOutcome) {
		err = errPlain
	}
	return leader, b.store.life.Fail("acknowledge", b.election, err)
}

func (b *ballot) acknowledge(ctx context.Context, value string) (store.Leader, error) {
	s := b.store
	if err := store.CheckValue(value); err != nil {
		return store.Leader{}, err
	}
	ctx, done, err := b.call(ctx)
	if err != nil {
		return store.Leader{}, err
	}
	defer done()
	if !b.first.Load() && !s.has(AcknowledgedBeforeFirst) {
		return store.Leader{}, store.ErrNotFirst
	}
	var leader store.Leader
	var refused error
	err = s.line.call(ctx, func() { leader, refused = b.put(s.altered(value)) })
	if err == nil {
		err = refused
	}
	if ctx.Err() != nil && !errors.Is(err, store.ErrUnknownOutcome) {
		err = fmt.Errorf("%w: %w", store.ErrUnknownOutcome, context.Cause(ctx))
	}
	if errors.Is(err, store.ErrLost) {
		b.end(errRemoved)
	}
	return leader, err
}

// put is the transaction of an acknowledgement.
func (b *ballot) put(value string) (store.Leader, error) {
	s := b.store
	session, stands := b.session.id, func() bool { return s.service.stands(b.key.name, b.key.created) }
	switch s.service.flaw {
	case AcknowledgementOutlivesSession:
		session = 0
	case AcknowledgedWithoutBallot:
		stands = func() bool { return true }
	case AcknowledgementOnce:
		if b.acked.Swap(true) {
			return store.Leader{}, errPlain
		}
	}
	k := s.service.acknowledge(stands, session, b.key.created, b.election, value)
	if k == nil {
		return store.Leader{}, store.ErrLost
	}
	return s.record(k), nil
}

// Withdraw implements store.Ballot.
func (b *ballot) Withdraw(ctx context.Context) error {
	s := b.store
	if b.withdrawn.Swap(true) && s.has(WithdrawOnce) {
		return errPlain
	}
	select {
	case <-b.session.over.Done(): // and the ballot with it
		if errors.Is(context.Cause(b.session.over), store.ErrClosed) && s.line.IsCut() {
			return s.life.Fail("withdraw", b.election, store.ErrClosed)
		}
		return nil
	default:
	}
	b.end(errWithdrawn)
	s.release(b)
	_, err := repeat(ctx, s.life, "withdraw", b.election, func(ctx context.Context) (struct{}, error) {
		err := s.line.call(ctx, func() { b.removeNow() })
		if s.has(WithdrawUnproven) {
			err = nil
		}
		return struct{}{}, err
	})
	if err != nil && !s.has(AbandonedWithdrawalStands) {
		s.life.Go(func() { s.remove(b.session, b.election, b.key.name, b.key.created) })
	}
	return err
}

func (b *ballot) removeNow() {
	b.store.removeNow(b.session.id, b.election, b.key.name, b.key.created)
}

// remove removes a ballot with its acknowledgement, however long that takes, while its session lives.
func (s *Store) remove(sess *clientSession, election, name string, created uint64) {
	for s.life.Background.Err() == nil && sess.over.Err() == nil {
		if s.line.call(s.life.Background, func() { s.removeNow(sess.id, election, name, created) }) == nil {
			return
		}
	}
}

// removeNow is the transaction of a withdrawal. If the ballot's creation is unknown, its session is enough.
func (s *Store) removeNow(session uint64, election, name string, created uint64) {
	mine := func(k *key) bool {
		return s.has(RemovalByName) || k.session == session && (created == 0 || k.created == created)
	}
	last := func(k *key) bool { return k.owner == created }
	switch s.service.flaw {
	case WithdrawLeavesAcknowledgement:
		last = func(*key) bool { return false }
	case WithdrawTakesTheNext:
		last = func(*key) bool { return true }
	}
	s.service.removeBallot(name, mine, election, last)
}
