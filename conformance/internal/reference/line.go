package reference

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
)

// Line is the line between a store and its service. It implements conformance.Faults.
type Line struct {
	mu       sync.Mutex
	cut      bool // guarded by mu, as are all below
	wasCut   bool
	lose     bool
	delay    time.Duration
	replies  time.Duration
	requests int
	changed  chan struct{} // closed and replaced when a switch is set
	broken   chan struct{} // closed and replaced when connections that have lost something are broken off
}

func newLine() *Line { return &Line{changed: make(chan struct{}), broken: make(chan struct{})} }

// Cut implements conformance.Faults.
func (l *Line) Cut() { l.set(func() { l.cut, l.wasCut = true, true }) }

// LoseReplies implements conformance.Faults.
func (l *Line) LoseReplies() { l.set(func() { l.lose = true }) }

// Delay implements conformance.Faults.
func (l *Line) Delay(d time.Duration) { l.set(func() { l.delay = d }) }

// DelayReplies implements conformance.Faults.
func (l *Line) DelayReplies(d time.Duration) { l.set(func() { l.replies = d }) }

// Heal implements conformance.Faults.
func (l *Line) Heal() {
	l.set(func() {
		if l.lose {
			close(l.broken)
			l.broken = make(chan struct{})
		}
		l.cut, l.lose = false, false
	})
}

// Requests implements conformance.Faults. Renewals don't count.
func (l *Line) Requests() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requests
}

func (l *Line) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.changed)
	l.changed = make(chan struct{})
}

// hasBeenCut reports whether the line is cut or was.
func (l *Line) hasBeenCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wasCut
}

// isCut reports whether nothing passes.
func (l *Line) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

// delayed reports whether a request takes time, so that something can happen between one and the next. Without a delay
// it would be up to the scheduler whether anything does, and with it whether a case fails.
func (l *Line) delayed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.delay+l.replies > 0
}

// breaks returns a channel that is closed when what was lost till then is known to be lost.
func (l *Line) breaks() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

// call carries out a request. An error that matches ErrUnknownOutcome means that the request might have been carried
// out.
func (l *Line) call(ctx context.Context, request func()) error {
	l.mu.Lock()
	l.requests++
	l.mu.Unlock()
	return l.send(ctx, request)
}

// send is call without counting.
func (l *Line) send(ctx context.Context, request func()) error {
	if _, err := l.pass(ctx, l.wayOut, func() bool { return l.cut }); err != nil {
		return err
	}
	request()
	lost, err := l.pass(ctx, l.wayBack, func() bool { return l.cut || l.lose })
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
	case lost:
		return store.ErrUnknownOutcome
	}
	return nil
}

// await waits until the notification of an event arrives, or until it may have been lost, or ctx ends.
func (l *Line) await(ctx context.Context, event <-chan struct{}) {
	broken := l.breaks()
	select {
	case <-event:
		_, _ = l.pass(ctx, l.wayBack, func() bool { return l.cut || l.lose })
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

// wayOut and wayBack are the delays of the two directions. The caller holds mu.
func (l *Line) wayOut() time.Duration  { return l.delay }
func (l *Line) wayBack() time.Duration { return l.delay + l.replies }

// pass waits until the line is not blocked and the delay is over. It reports whether replies were lost meanwhile.
func (l *Line) pass(ctx context.Context, delay func() time.Duration, blocked func() bool) (lost bool, err error) {
	began := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		l.mu.Lock()
		lost = lost || l.lose
		waits, changed, left := blocked(), l.changed, delay()-time.Since(began)
		l.mu.Unlock()
		var after <-chan time.Time
		switch {
		case !waits && left <= 0:
			return lost, nil
		case !waits:
			timer.Reset(left)
			after = timer.C
		}
		select {
		case <-after:
		case <-changed:
		case <-ctx.Done():
		}
	}
	return lost, context.Cause(ctx)
}
