package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// ballot implements store.Ballot.
type ballot struct {
	engine   *Engine
	session  *session
	entry    Entry // constant, but for Place, which mu guards; as are nonce and doubt
	nonce    Nonce
	doubt    bool // a request to enter it may still be on its way
	item     item
	denied   denials // used by work alone
	resynced uint64  // guarded by the engine's mu: the number of its last resync

	ctx   context.Context // ends when the ballot is lost, with the reason; lose alone ends it, under mu
	end   context.CancelCauseFunc
	first chan struct{} // closed under mu, as are all below: when the ballot is first
	asked chan struct{} // closed when an operator has asked it to resign
	back  chan struct{} // closed when its owner has begun to withdraw it

	mu        sync.Mutex
	waited    bool   // guarded by mu, as are all below: Wait has said that it is first
	tried     bool   // it may have been acknowledged
	revision  uint64 // of the last acknowledgement that is known
	gone      bool   // neither the entry nor an acknowledgement stands, or ever will
	discarded bool   // it is being removed in the background
	forgotten bool   // the session has been told that it is gone
	detects   string // the session ahead that is looked after
	own, prev *sight // of the own entry, and of the nearest ahead; nil if there is none
}

func newBallot(s *session, entry Entry, nonce Nonce) *ballot {
	b := &ballot{engine: s.engine, session: s, entry: entry, nonce: nonce}
	b.first, b.asked, b.back = make(chan struct{}), make(chan struct{}), make(chan struct{})
	b.item.work = b.work
	b.ctx, b.end = context.WithCancelCause(context.Background())
	return b
}

// closed reports whether a channel that carries nothing is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Token implements store.Ballot.
func (b *ballot) Token() uint64 { return b.entry.Token }

// Lease implements store.Ballot.
func (b *ballot) Lease() *store.Lease { return b.session.lease }

// Lost implements store.Ballot.
func (b *ballot) Lost() <-chan struct{} { return b.ctx.Done() }

// Err implements store.Ballot.
func (b *ballot) Err() error { return context.Cause(b.ctx) }

// ResignationRequested implements store.Ballot.
func (b *ballot) ResignationRequested() <-chan struct{} { return b.asked }

// Wait implements store.Ballot.
func (b *ballot) Wait(ctx context.Context) error {
	err := context.Cause(ctx)
	if err == nil {
		select {
		case <-b.first:
		case <-b.Lost():
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if lost := b.Err(); lost != nil { // also if it is first
		return lost
	}
	if err != nil {
		return b.engine.life.Fail("wait", b.entry.Election, err)
	}
	b.waited = true
	return nil
}

// lose says why the ballot is lost. The first reason stays.
func (b *ballot) lose(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loseLocked(why)
}

// loseLocked is lose. The caller holds mu. From here on the ballot is never first, and no acknowledgement is sent.
func (b *ballot) loseLocked(why error) {
	b.end(b.engine.life.Fail("stand", b.entry.Election, why))
	b.engine.queue.add(&b.item)
}

// removed loses a ballot whose entry has been found not to stand. There is nothing to remove if the ballot was never
// first, and so never acknowledged, and can't be entered again. The caller holds mu.
func (b *ballot) removed() {
	if !closed(b.first) && !b.doubt {
		b.gone = true
	}
	b.loseLocked(fmt.Errorf("%w: %s", store.ErrLost, b.engine.settings.RemovedReason))
}

// lead makes the ballot first, unless it is lost. The caller holds mu, and knows that none is ahead and that the entry
// stood when the last one ahead went, or later.
func (b *ballot) lead() {
	if closed(b.first) || b.Err() != nil {
		return
	}
	b.engine.queue.add(&b.item) // the nearest no longer needs a watch
	close(b.first)              // last: the owner's goroutine runs before the worker's
}

// Acknowledge implements store.Ballot.
func (b *ballot) Acknowledge(ctx context.Context, value string) (store.Leader, error) {
	leader, err := b.acknowledge(ctx, value)
	if err != nil {
		return store.Leader{}, b.engine.life.Fail("acknowledge", b.entry.Election, err)
	}
	return leader, nil
}

func (b *ballot) acknowledge(ctx context.Context, value string) (store.Leader, error) {
	if err := store.CheckValue(value); err != nil {
		return store.Leader{}, err
	}
	if err := b.Err(); err != nil {
		return store.Leader{}, err
	}
	call, done, err := b.engine.call(ctx)
	if err != nil {
		return store.Leader{}, err
	}
	defer done()
	if err := b.try(); err != nil {
		return store.Leader{}, err
	}
	call, cancel := context.WithCancelCause(call)
	defer cancel(nil)
	defer context.AfterFunc(b.ctx, func() { cancel(b.Err()) })()
	var revision uint64
	err = b.engine.outage.send(call, func() (err error) {
		revision, err = b.session.driver.Acknowledge(call, b.entry, value)
		return err
	})
	switch {
	case err == nil:
		b.acknowledged(revision)
		b.engine.notOlder(b.entry.Election, revision)
		return store.Leader{Value: value, Revision: revision}, nil
	case errors.Is(err, ErrGone):
		b.mu.Lock()
		b.removed()
		b.mu.Unlock()
		return store.Leader{}, b.Err()
	case errors.Is(err, ErrOver):
		b.session.ended()
		return store.Leader{}, b.Err()
	case call.Err() != nil:
		return store.Leader{}, adapter.Ended(call, err, nil)
	}
	return store.Leader{}, err
}

// try notes that there may be an acknowledgement from now on, before it is sent. It refuses if the ballot is lost: a
// removal that is under way might not know of it.
func (b *ballot) try() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.Err() != nil:
		return b.Err()
	case !b.waited:
		return store.ErrNotFirst
	}
	b.tried = true
	return nil
}

func (b *ballot) acknowledged(revision uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.revision = max(b.revision, revision)
}

// Withdraw implements store.Ballot. The ballot is lost before its entry is removed: it can't become first, and nothing
// is acknowledged, while the removal is under way.
func (b *ballot) Withdraw(ctx context.Context) error {
	b.giveBack()
	defer b.engine.queue.add(&b.item) // the watches go after the removal, which the next in line waits for
	if b.isGone() {
		return nil
	}
	err := b.engine.repeat(ctx, b.remove)
	if err != nil {
		b.discard()
	}
	return b.engine.life.Fail("withdraw", b.entry.Election, err)
}

// giveBack notes that no leader's work depends on the ballot any more, and loses it.
func (b *ballot) giveBack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !closed(b.back) {
		close(b.back)
	}
	b.end(b.engine.life.Fail("stand", b.entry.Election, errWithdrawn))
}

var errWithdrawn = fmt.Errorf("%w: it was withdrawn", store.ErrLost)

// works reports whether a leader's work might depend on the ballot: its owner knows that it is first, and has not given
// it back.
func (b *ballot) works() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waited && !closed(b.back) && !b.gone
}

func (b *ballot) isGone() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.gone
}

// remove removes the entry and its acknowledgement, and returns nil once both are known to be gone.
func (b *ballot) remove(ctx context.Context) error {
	s := b.session
	if s.takes() {
		if _, left := s.state(); left != nil {
			return failFast{left} // nothing is sent any more
		}
		return nil
	}
	if b.isGone() {
		return nil
	}
	err := s.send(ctx, func() error {
		err := s.driver.Remove(ctx, b.removal())
		if err == nil && b.doubt { // otherwise it might be entered again
			err = s.driver.Void(ctx, b.entry.Election, b.nonce)
		}
		return err
	})
	if errors.Is(err, ErrOver) {
		s.ended()
		err = nil
	}
	if err == nil {
		b.mu.Lock()
		b.gone = true
		b.mu.Unlock()
		s.forget(b, b.nonce.Name)
		s.refuse(b.entry.Key, nil)
	}
	return err
}

// removal is what is removed. It is made when the ballot is lost: nothing is acknowledged any more.
func (b *ballot) removal() Removal {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Removal{Entry: b.entry, Led: closed(b.first), Acknowledged: b.tried, Revision: b.revision, Alone: b.alone}
}

// alone reports whether no other ballot of the session that stands in this election may have been acknowledged.
func (b *ballot) alone() bool {
	b.engine.mu.Lock()
	others := make([]*ballot, 0, len(b.session.ballots))
	for other := range b.session.ballots {
		if other != b && other.entry.Election == b.entry.Election {
			others = append(others, other)
		}
	}
	b.engine.mu.Unlock()
	for _, other := range others {
		other.mu.Lock()
		tried := other.tried && other.Err() == nil
		other.mu.Unlock()
		if tried {
			return false
		}
	}
	return true
}

// discard removes the entry in the background.
func (b *ballot) discard() {
	s := b.session
	b.mu.Lock()
	again := b.discarded || b.gone
	b.discarded = true
	b.mu.Unlock()
	if again {
		return
	}
	b.engine.mu.Lock()
	s.begin(b.nonce.Name)
	b.engine.mu.Unlock()
	s.background(func(*slot) { s.clean(b.entry.Key, b.remove) })
}
