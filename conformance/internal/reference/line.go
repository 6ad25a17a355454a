package reference

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/faulty"
)

// Line is the line between a store and its service. It implements conformance.Faults.
type Line struct {
	*faulty.Line
	wasCut atomic.Bool
	lost   atomic.Bool // replies are lost, or were since the last Heal

	mu     sync.Mutex
	broken chan struct{} // closed and replaced when connections that have lost something are broken off; guarded by mu
}

func newLine() *Line { return &Line{Line: faulty.New(), broken: make(chan struct{})} }

// Cut implements conformance.Faults.
func (l *Line) Cut() {
	l.wasCut.Store(true)
	l.Line.Cut()
}

// LoseReplies implements conformance.Faults.
func (l *Line) LoseReplies() {
	l.lost.Store(true)
	l.Line.LoseReplies()
}

// Heal implements conformance.Faults.
func (l *Line) Heal() {
	if l.lost.Swap(false) {
		l.mu.Lock()
		close(l.broken)
		l.broken = make(chan struct{})
		l.mu.Unlock()
	}
	l.Line.Heal()
}

// breaks returns a channel that is closed when what was lost till then is known to be lost.
func (l *Line) breaks() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

// call carries out a request and counts it. An error that matches ErrUnknownOutcome means that the request might have
// been carried out.
func (l *Line) call(ctx context.Context, request func()) error {
	l.Count()
	return l.Send(ctx, request)
}

// await waits until the notification of an event arrives, or until it may have been lost, or ctx ends.
func (l *Line) await(ctx context.Context, event <-chan struct{}) {
	broken := l.breaks()
	select {
	case <-event:
		_ = l.Await(ctx, time.Now())
	case <-broken:
	case <-ctx.Done():
	}
}

// notify returns a channel that is closed when await is over.
func (l *Line) notify(ctx context.Context, event <-chan struct{}) <-chan struct{} {
	arrived := make(chan struct{})
	go func() {
		defer close(arrived)
		l.await(ctx, event)
	}()
	return arrived
}
