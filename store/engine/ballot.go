package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// ballot implements store.Ballot. Its goroutine is in line.go.
type ballot struct {
	engine  *Engine
	session *session
	claim   *claim
	entry   Entry // constant, but for Place, which mu guards
	doubt   bool  // constant: a request to enter it may still be on its way

	ctx   context.Context // ends when the ballot is lost, with the reason, under mu
	end   context.CancelCauseFunc
	first chan struct{} // closed under mu, as are all below: when the ballot is first
	asked chan struct{} // closed when an operator has asked it to resign
	back  chan struct{} // closed when its owner has begun to withdraw it
	gone  chan struct{} // closed when neither the entry nor an acknowledgement stands, or ever will
	stuck chan struct{} // closed when the service has refused to remove the entry
	bell  chan struct{} // has room for one: there is something for the goroutine to look at

	denied  denials         // only the goroutine uses it, as also retries and detects
	retries adapter.Retries // of its reads
	detects string          // the session ahead that is looked after

	mu        sync.Mutex
	waited    bool     // guarded by mu, as are all below: Wait has said that it is first
	tried     bool     // it may have been acknowledged
	revision  uint64   // of the last acknowledgement that is known
	trouble   error    // of the last request to remove it; nil if there was none
	own, prev *mailbox // of the own entry, and of the nearest ahead; nil if there is none
	overtaken func()   // ends the read that is under way
}

func newBallot(c *claim, entry Entry, doubt bool) *ballot {
	b := &ballot{engine: c.session.engine, session: c.session, claim: c, entry: entry, doubt: doubt, overtaken: func() {}}
	b.first, b.asked, b.back, b.gone = make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	b.stuck, b.bell = make(chan struct{}), make(chan struct{}, 1)
	b.ctx, b.end = context.WithCancelCause(context.Background())
	return b
}

// start makes the ballot first if none is ahead, and starts its goroutine. If the store was stopped, the session is over.
func (b *ballot) start() {
	b.mu.Lock()
	if b.entry.Place.Nearest == "" {
		b.lead()
	}
	b.mu.Unlock()
	b.engine.life.Go(b.run)
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

// Wait implements store.Ballot. It returns nil only once renewals are known to reach the lease, or while one that is sent
// now would: a term that began with the rest of the first proof would end before the first renewal arrives. A lease that
// has ended is the caller's to look at.
func (b *ballot) Wait(ctx context.Context) error {
	err := b.await(ctx, b.first)
	for renewed := b.unreachable(); err == nil && renewed != nil && b.Err() == nil && !closed(b.asked); renewed = b.unreachable() {
		err = b.await(ctx, renewed)
	}
	if err == nil && closed(b.asked) {
		err = store.ErrRequested
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch lost := b.Err(); {
	case lost != nil: // even if it is first
		return lost
	case err != nil:
		return b.engine.life.Fail("wait", b.entry.Election, err)
	}
	b.waited = true
	return nil
}

// await waits until a channel is closed, the ballot is lost, or its owner is asked to resign. Its error is why ctx has
// ended.
func (b *ballot) await(ctx context.Context, c <-chan struct{}) error {
	if ctx.Err() == nil {
		select {
		case <-c:
			return nil
		case <-b.Lost():
			return nil
		case <-b.asked:
			return nil
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

// unreachable returns nil if a renewal has reached the lease, if there is time for another round trip like that of its
// first proof, or if it has ended. Otherwise it returns a channel that is closed when it is renewed or ends.
func (b *ballot) unreachable() <-chan struct{} {
	last, left := b.session.lease.Last(), b.session.lease.Remaining()
	if b.session.reached.Load() || left <= 0 || left >= last.Confirmed.Sub(last.Sent) {
		return nil
	}
	return last.Changed
}

// lose says why the ballot is lost. The first reason stays.
func (b *ballot) lose(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loseLocked(why)
}

// loseLocked is lose. The caller holds mu. From here on the ballot is never first, and no acknowledgement is sent.
func (b *ballot) loseLocked(why error) { b.end(b.engine.life.Fail("stand", b.entry.Election, why)) }

// foundGone loses a ballot whose entry has been found to be gone. There is nothing to remove if the ballot was never
// first, and so never acknowledged, and can't be entered again. The caller holds mu.
func (b *ballot) foundGone() {
	if !closed(b.first) && !b.doubt {
		b.markGone()
	}
	b.loseLocked(fmt.Errorf("%w: %s", store.ErrLost, b.engine.settings.RemovedReason))
}

// markGone closes gone: neither the entry nor an acknowledgement stands. The caller holds mu.
func (b *ballot) markGone() {
	if !closed(b.gone) {
		close(b.gone)
	}
}

// lead makes the ballot first, unless it is lost. The caller holds mu, and knows that none is ahead and that the entry
// stood when the last one ahead went, or later.
func (b *ballot) lead() {
	if !closed(b.first) && b.Err() == nil {
		close(b.first)
	}
}

// RaiseTokens returns what an operator does if the service was set back, so that this ballot's token is lower than an
// earlier one. It is empty if the store names nothing.
func (b *ballot) RaiseTokens() string { return b.engine.settings.RaiseTokens }

// Conditioner is a Session of a service with transactions. Condition returns the condition that the entry stands, in
// the type of the service's client, for transactions of programs: the service carries such a transaction out only while
// the entry stands. It sends nothing.
type Conditioner interface {
	Condition(e Entry) any
}

// Condition returns the condition that the ballot stands, and nil if the driver has none. It refuses with
// store.ErrNotFirst if Wait has not returned nil: a ballot that waits stands too, while another candidate leads.
func (b *ballot) Condition() (any, error) {
	s, ok := b.session.driver.(Conditioner)
	if !ok {
		return nil, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.waited {
		return nil, b.engine.life.Fail("fence", b.entry.Election, store.ErrNotFirst)
	}
	return s.Condition(b.entry), nil
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
	err = b.engine.gate.send(call, plain, func() (err error) {
		revision, err = b.session.driver.Acknowledge(call, b.entry, value)
		return err
	})
	b.mu.Lock()
	b.revision = max(b.revision, revision)
	if errors.Is(err, ErrGone) {
		b.foundGone()
	}
	b.mu.Unlock()
	switch {
	case err == nil:
		return store.Leader{Value: value, Revision: revision}, nil
	case errors.Is(err, ErrGone):
		return store.Leader{}, b.Err()
	case errors.Is(err, ErrOver):
		b.session.ended()
		return store.Leader{}, b.Err()
	case call.Err() != nil:
		return store.Leader{}, adapter.Ended(call, err, nil)
	}
	return store.Leader{}, err
}

// try records, before an acknowledgement is sent, that there might be one from now on. It fails if the ballot is lost: a
// removal under way might not know of the acknowledgement.
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

// Withdraw implements store.Ballot. The ballot is lost before its entry is removed, so during the removal it can't become
// first, and nothing is acknowledged. Its goroutine removes the entry, even after the call's context has ended.
func (b *ballot) Withdraw(ctx context.Context) error {
	b.giveBack()
	if closed(b.gone) {
		return nil
	}
	call, done, err := b.engine.call(ctx)
	if err == nil {
		defer done()
		select {
		case <-b.gone:
		case <-b.stuck:
		case <-b.session.ctx.Done():
		case <-call.Done():
		}
		err = b.withdrawn(call)
	}
	return b.engine.life.Fail("withdraw", b.entry.Election, err)
}

// withdrawn returns nil if the ballot is known to be gone, and otherwise why it might stand.
func (b *ballot) withdrawn(call context.Context) error {
	finished, unconfirmed := b.session.state()
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case closed(b.gone), finished && unconfirmed == nil:
		return nil
	case closed(b.stuck):
		return b.trouble
	case finished:
		return unconfirmed // nothing is sent any more
	}
	return adapter.Ended(call, nil, cmp.Or(b.trouble, errRemoving))
}

// errRemoving is why a Withdraw that is cut short does not know what became of the ballot.
var errRemoving = fmt.Errorf("%w: the removal goes on", store.ErrUnknownOutcome)

// giveBack loses the ballot. No leader's work depends on it any more.
func (b *ballot) giveBack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !closed(b.back) {
		close(b.back)
	}
	b.loseLocked(errWithdrawn)
}

var errWithdrawn = fmt.Errorf("%w: it was withdrawn", store.ErrLost)

// works reports whether a leader's work might depend on the ballot: its owner knows that it is first, and has not given
// it back.
func (b *ballot) works() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waited && !closed(b.back) && !closed(b.gone)
}

// remove removes the entry and its acknowledgement.
func (b *ballot) remove(ctx context.Context) error {
	err := b.session.driver.Remove(ctx, b.removal())
	if err == nil && b.doubt { // otherwise it might be entered again
		err = b.session.driver.Void(ctx, b.entry.Election, b.claim.nonce)
	}
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.markGone()
	}
	return err
}

// notRemoved keeps why the entry might still be there, and whether the service has refused to remove it. A refusal stays:
// a Withdraw that finds one does not wait for an answer.
func (b *ballot) notRemoved(err error, refused bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if refused || !closed(b.stuck) {
		b.trouble = after(b.trouble, err)
	}
	if refused && !closed(b.stuck) {
		close(b.stuck)
	}
}

// removal is what is removed. It is made when the ballot is lost: nothing is acknowledged any more.
func (b *ballot) removal() Removal {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Removal{Entry: b.entry, Led: closed(b.first), Acknowledged: b.tried, Revision: b.revision, Alone: b.alone}
}

// alone reports whether every other ballot of the session in this election is lost or was never acknowledged.
func (b *ballot) alone() bool {
	for _, other := range b.session.ballots() {
		if other == b || other.entry.Election != b.entry.Election {
			continue
		}
		other.mu.Lock()
		tried := other.tried && other.Err() == nil
		other.mu.Unlock()
		if tried {
			return false
		}
	}
	return true
}
