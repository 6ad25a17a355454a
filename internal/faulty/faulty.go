// Package faulty has the line between a store and its service that tests make fail.
package faulty

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
)

// Line carries requests there, and answers and news back. It implements conformance.Faults. A switch takes effect at
// once, for what is under way too.
type Line struct {
	mu       sync.Mutex
	cut      bool // guarded by mu, as are all below
	lose     bool
	stall    bool
	delay    time.Duration
	replies  time.Duration
	lag      time.Duration
	requests int
	changed  chan struct{} // closed and replaced when a switch is set
}

// New returns a line without faults.
func New() *Line { return &Line{changed: make(chan struct{})} }

// Cut stops everything, in both directions, until Heal. What was under way waits.
func (l *Line) Cut() { l.set(func() { l.cut = true }) }

// LoseReplies lets requests through and loses their answers, and stops news, until Heal.
func (l *Line) LoseReplies() { l.set(func() { l.lose = true }) }

// Stall holds news back until Heal, while requests are answered.
func (l *Line) Stall() { l.set(func() { l.stall = true }) }

// Delay adds the time to every request, every answer and all news; zero takes it away.
func (l *Line) Delay(d time.Duration) { l.set(func() { l.delay = d }) }

// DelayReplies adds the time to every answer and all news, besides that of Delay; zero takes it away.
func (l *Line) DelayReplies(d time.Duration) { l.set(func() { l.replies = d }) }

// Lag adds the time to all news, besides; zero takes it away.
func (l *Line) Lag(d time.Duration) { l.set(func() { l.lag = d }) }

// Heal undoes Cut, LoseReplies and Stall.
func (l *Line) Heal() { l.set(func() { l.cut, l.lose, l.stall = false, false, false }) }

// Requests returns how many requests Count has counted.
func (l *Line) Requests() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requests
}

// Count counts a request.
func (l *Line) Count() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests++
}

// IsCut reports whether nothing passes.
func (l *Line) IsCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

// Delayed reports whether requests or their answers take time.
func (l *Line) Delayed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.delay+l.replies > 0
}

func (l *Line) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.changed)
	l.changed = make(chan struct{})
}

// Send carries out a request. If ctx ends first, the error says whether the request has reached the service
// (ErrUnknownOutcome) or not (ErrUnavailable).
func (l *Line) Send(ctx context.Context, request func()) error {
	if _, err := l.wait(ctx, time.Now(), func() (bool, time.Duration) { return l.cut, l.delay }); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	request()
	lost, err := l.wait(ctx, time.Now(), func() (bool, time.Duration) { return l.cut || l.lose, l.delay + l.replies })
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
	case lost:
		return store.ErrUnknownOutcome
	}
	return nil
}

// Await waits until news arrive that the service has sent at that time, or ctx ends.
func (l *Line) Await(ctx context.Context, sent time.Time) error {
	_, err := l.wait(ctx, sent, l.news)
	return err
}

// Arrived reports whether news that the service sent at that time have arrived.
func (l *Line) Arrived(sent time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	blocked, delay := l.news()
	return !blocked && time.Since(sent) >= delay
}

// news returns whether the way of news is blocked, and how long it takes. The caller holds the mutex.
func (l *Line) news() (blocked bool, delay time.Duration) {
	return l.cut || l.lose || l.stall, l.delay + l.replies + l.lag
}

// wait waits until what began at that time has passed a way, as the switches are set meanwhile. It reports whether
// answers were lost at any time until then. It calls way with the mutex held.
func (l *Line) wait(ctx context.Context, began time.Time, way func() (blocked bool, delay time.Duration)) (lost bool, err error) {
	for ctx.Err() == nil {
		l.mu.Lock()
		blocked, delay := way()
		lost = lost || l.lose
		changed, left := l.changed, delay-time.Since(began)
		l.mu.Unlock()
		if !blocked && left <= 0 {
			return lost, nil
		}
		var after <-chan time.Time
		if !blocked {
			after = time.After(left)
		}
		select {
		case <-after:
		case <-changed:
		case <-ctx.Done():
		}
	}
	return lost, context.Cause(ctx)
}
