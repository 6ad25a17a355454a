package memory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
)

// Faults are the switches on the line between one store and its service. They take effect at once, for requests under
// way too, and may be used at any time from any goroutine.
type Faults struct {
	driver *driver

	mu       sync.Mutex
	cut      bool          // guarded by mu, as are all below
	lose     bool          // requests are carried out, their answers never come
	stall    bool          // notifications don't come
	delay    time.Duration // of every request, answer and notification
	replies  time.Duration // of every answer and notification, besides
	requests int
	changed  chan struct{} // closed and replaced when a switch is set
}

// Cut stops everything on the line, in both directions, until Heal. What was under way waits.
func (f *Faults) Cut() { f.set(func() { f.cut = true }) }

// LoseReplies lets requests through and loses their answers, and stops notifications, until Heal.
func (f *Faults) LoseReplies() { f.set(func() { f.lose = true }) }

// StallWatches holds notifications back until Heal, while requests are answered.
func (f *Faults) StallWatches() { f.set(func() { f.stall = true }) }

// Delay adds the time to every request, every answer and every notification; zero takes it away.
func (f *Faults) Delay(d time.Duration) { f.set(func() { f.delay = d }) }

// DelayReplies adds the time to every answer and every notification, besides that of Delay; zero takes it away.
func (f *Faults) DelayReplies(d time.Duration) { f.set(func() { f.replies = d }) }

// Heal undoes Cut, LoseReplies and StallWatches.
func (f *Faults) Heal() { f.set(func() { f.cut, f.lose, f.stall = false, false, false }) }

// Expire makes the service end the session at once, before its TTL has passed, which no promise covers.
func (f *Faults) Expire() {
	f.driver.service.drop(f.driver.lastSession())
}

// Requests returns how many requests the store has sent so far, without those that renew its session.
func (f *Faults) Requests() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests
}

func (f *Faults) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.changed)
	f.changed = make(chan struct{})
}

// reached reports whether the line is not cut.
func (f *Faults) reached() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.cut
}

// call carries out one request. If ctx ends first, the error says whether the request has reached the service
// (ErrUnknownOutcome) or not (ErrUnavailable).
func (f *Faults) call(ctx context.Context, request func()) error {
	f.mu.Lock()
	f.requests++
	f.mu.Unlock()
	return f.send(ctx, request)
}

// send is call without counting.
func (f *Faults) send(ctx context.Context, request func()) error {
	if _, err := f.pass(ctx, time.Now(), f.wayOut, func() bool { return f.cut }); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	request()
	lost, err := f.pass(ctx, time.Now(), f.wayBack, func() bool { return f.cut || f.lose })
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
	case lost:
		return store.ErrUnknownOutcome
	}
	return nil
}

// notified waits until a notification arrives that the service has sent at that time.
func (f *Faults) notified(ctx context.Context, sent time.Time) error {
	_, err := f.pass(ctx, sent, f.wayBack, func() bool { return f.cut || f.lose || f.stall })
	return err
}

// arrived reports whether a notification that the service sent at that time has arrived.
func (f *Faults) arrived(sent time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.cut && !f.lose && !f.stall && time.Since(sent) >= f.wayBack()
}

// wayOut and wayBack are the delays of the two directions. The caller holds the mutex.
func (f *Faults) wayOut() time.Duration  { return f.delay }
func (f *Faults) wayBack() time.Duration { return f.delay + f.replies }

// pass waits until nothing blocks the line and the delay is over, both as the switches are set meanwhile. It reports
// whether replies were lost at any time until then.
func (f *Faults) pass(
	ctx context.Context, began time.Time, delay func() time.Duration, blocked func() bool,
) (lost bool, err error) {
	for ctx.Err() == nil {
		f.mu.Lock()
		lost = lost || f.lose
		waits, changed, left := blocked(), f.changed, delay()-time.Since(began)
		f.mu.Unlock()
		if !waits && left <= 0 {
			return lost, nil
		}
		var after <-chan time.Time
		if !waits {
			timer := time.NewTimer(left)
			defer timer.Stop()
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
