package adapter

import (
	"context"
	"fmt"

	"github.com/go-leadership/leadership/store"
)

// ErrClosed is why the ballots of a store that was closed are lost.
var ErrClosed = fmt.Errorf("%w: %w", store.ErrLost, store.ErrClosed)

// ErrSessionEnded is why ballots are lost whose session is known to be over.
var ErrSessionEnded = fmt.Errorf("%w: the session has ended", store.ErrLost)

// Ballot is what all ballots do alike of store.Ballot. Those of the adapters embed it.
type Ballot struct {
	Election string

	life  *Life
	ctx   context.Context // ends when the ballot is lost, with the cause
	end   context.CancelCauseFunc
	first chan struct{} // closed when no ballot is ahead any more
}

// NewBallot returns a ballot that is neither first nor lost.
func NewBallot(l *Life, election string) Ballot {
	b := Ballot{Election: election, life: l, first: make(chan struct{})}
	b.ctx, b.end = context.WithCancelCause(context.Background())
	return b
}

// Context returns a context that ends when the ballot is lost.
func (b *Ballot) Context() context.Context { return b.ctx }

// Lost implements store.Ballot.
func (b *Ballot) Lost() <-chan struct{} { return b.ctx.Done() }

// Err implements store.Ballot.
func (b *Ballot) Err() error { return context.Cause(b.ctx) }

// Lose says why the ballot is lost. The first reason stays.
func (b *Ballot) Lose(why string) { b.LoseWith(fmt.Errorf("%w: %s", store.ErrLost, why)) }

// LoseWith is Lose with an error, which matches store.ErrLost.
func (b *Ballot) LoseWith(err error) { b.end(b.life.Fail("stand", b.Election, err)) }

// Lead makes the ballot first. One goroutine at a time calls it.
func (b *Ballot) Lead() {
	if !b.IsFirst() {
		close(b.first)
	}
}

// IsFirst reports whether Lead has been called.
func (b *Ballot) IsFirst() bool {
	select {
	case <-b.first:
		return true
	default:
		return false
	}
}

// Wait implements store.Ballot.
func (b *Ballot) Wait(ctx context.Context) error {
	select {
	case <-b.first:
	case <-b.Lost():
	case <-ctx.Done():
		return b.life.Fail("wait", b.Election, context.Cause(ctx))
	}
	return b.Err() // if it is both first and lost
}

// Acknowledge does what comes before and after the adapter's own part of store.Ballot's method.
func (b *Ballot) Acknowledge(
	ctx context.Context, value string, put func(context.Context) (store.Leader, error),
) (store.Leader, error) {
	fail := func(err error) (store.Leader, error) {
		return store.Leader{}, b.life.Fail("acknowledge", b.Election, err)
	}
	if err := store.CheckValue(value); err != nil {
		return fail(err)
	}
	if err := b.Err(); err != nil {
		return fail(err)
	}
	if !b.IsFirst() {
		return fail(store.ErrNotFirst)
	}
	ctx, done, err := b.life.Call(ctx)
	if err != nil {
		return fail(err)
	}
	defer done()
	leader, err := put(ctx)
	if err != nil {
		return fail(err)
	}
	return leader, nil
}
