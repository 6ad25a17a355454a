package memory

import (
	"cmp"
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
	double   bool          // notifications come twice
	delay    time.Duration // of every request, answer and notification
	replies  time.Duration // of every answer and notification, besides
	lag      time.Duration // of every notification, besides
	linger   time.Duration // for how long the service keeps the session longer than it has to
	fate     func() Fate   // nil, or decides on each request
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

// Lag adds the time to every notification, as a member of the service does that lags; zero takes it away.
func (f *Faults) Lag(d time.Duration) { f.set(func() { f.lag = d }) }

// Double makes each notification come twice, until Heal.
func (f *Faults) Double() { f.set(func() { f.double = true }) }

// Mute keeps the watches that are set from telling anything any more. Those that are set later are not affected.
func (f *Faults) Mute() { f.driver.service.mute(f.driver.line) }

// Linger makes the service keep the session so much longer than it has to, from the next renewal on.
func (f *Faults) Linger(d time.Duration) { f.set(func() { f.linger = d }) }

// Fate is what happens to one request, besides what the switches do. The zero Fate lets it pass.
type Fate struct {
	Err   error         // it is not carried out, and fails with this error
	Lost  bool          // it is not carried out, and no answer comes
	Late  time.Duration // no answer comes, and a request that changes something is carried out so much later
	Twice bool          // it is carried out once more before the answer comes
}

// Decide makes decide say what happens to each request that is sent, but for those that open and renew the session and
// confirm what has been told. nil lets all pass. It is called from several goroutines.
func (f *Faults) Decide(decide func() Fate) { f.set(func() { f.fate = decide }) }

// Heal undoes Cut, LoseReplies, StallWatches and Double.
func (f *Faults) Heal() {
	f.set(func() { f.cut, f.lose, f.stall, f.double = false, false, false, false })
}

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

// read carries out a request that changes nothing.
func read[T any](ctx context.Context, f *Faults, request func() (T, error)) (T, error) {
	return send(ctx, f, false, request)
}

// write carries out a request that changes something, and returns nothing.
func write(ctx context.Context, f *Faults, request func() error) error {
	_, err := send(ctx, f, true, func() (struct{}, error) { return struct{}{}, request() })
	return err
}

// send carries out one request. If ctx ends first, the error says whether the request has reached the service
// (ErrUnknownOutcome) or not (ErrUnavailable).
func send[T any](ctx context.Context, f *Faults, changes bool, request func() (T, error)) (v T, err error) {
	f.mu.Lock()
	f.requests++
	decide := f.fate
	f.mu.Unlock()
	var fate Fate
	if decide != nil {
		fate = decide()
	}
	var answer error
	passed := f.pass(ctx, func() {
		switch {
		case fate.Err != nil:
			answer = fate.Err
		case fate.Lost || fate.Late > 0:
			answer = store.ErrUnknownOutcome
			if fate.Late > 0 && changes {
				time.AfterFunc(fate.Late, func() { _, _ = request() })
			}
		default:
			v, answer = request()
			if fate.Twice {
				v, answer = request()
			}
		}
	})
	if passed != nil || answer != nil {
		var none T
		return none, cmp.Or(passed, answer)
	}
	return v, nil
}

// pass carries out something on the way of a request and its answer.
func (f *Faults) pass(ctx context.Context, do func()) error {
	if _, err := f.wait(ctx, time.Now(), f.wayOut, func() bool { return f.cut }); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	do()
	lost, err := f.wait(ctx, time.Now(), f.wayBack, func() bool { return f.cut || f.lose })
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
	_, err := f.wait(ctx, sent, f.wayOfNotices, func() bool { return f.cut || f.lose || f.stall })
	return err
}

// arrived reports whether a notification that the service sent at that time has arrived.
func (f *Faults) arrived(sent time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.cut && !f.lose && !f.stall && time.Since(sent) >= f.wayOfNotices()
}

// doubles reports whether notifications come twice.
func (f *Faults) doubles() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.double
}

// lingers returns for how long the service keeps the session longer than it has to.
func (f *Faults) lingers() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.linger
}

// These are the delays of requests, answers and notifications. The caller holds the mutex.
func (f *Faults) wayOut() time.Duration       { return f.delay }
func (f *Faults) wayBack() time.Duration      { return f.delay + f.replies }
func (f *Faults) wayOfNotices() time.Duration { return f.wayBack() + f.lag }

// wait waits until nothing blocks the line and the delay is over, both as the switches are set meanwhile. It reports
// whether replies were lost at any time until then.
func (f *Faults) wait(
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
