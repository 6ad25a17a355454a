package engine

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// outage is a gate for the requests of a store. An outage begins when a request ends without an answer, and nothing has
// been answered since it was sent. Until a request is answered, all others wait for a turn, and each turn lets one
// through. The first answer ends the outage and lets all through. So a store sends few requests to a service that does
// not answer, however many elections it has, and finds out soon that the service answers again.
//
// An outage that has lasted for [unnoticed] is logged once, and so is its end.
type outage struct {
	name   string // of the store
	logger *logger

	mu       sync.Mutex
	answered time.Time     // guarded by mu, as are all below: when the last answer came
	began    time.Time     // when the request was sent that has no answer; zero if there is no outage
	cause    string        // why it has none
	warn     *time.Timer   // logs the beginning
	warned   bool          // it was logged
	waiting  []*turn       // in the order in which they came
	next     time.Time     // no turn comes before
	pause    time.Duration // from the last turn to next
	opened   bool          // the last turn was that of a request to open a session
	timer    *time.Timer   // for the next turn; nil before the first
}

// turn is a request that waits.
type turn struct {
	opens bool          // a session
	come  chan struct{} // closed when it may be sent
}

const (
	// leastPause is the time from the first turn of an outage to the second. It doubles to mostPause.
	leastPause, mostPause = 50 * time.Millisecond, 250 * time.Millisecond
	// unnoticed is how long an outage lasts before it is logged: a reply that is lost costs less.
	unnoticed = time.Second
)

// send sends a request in its turn, and notes whether it was answered. If ctx ends first, nothing is sent.
func (o *outage) send(ctx context.Context, request func() error) error {
	return o.sendInTurn(ctx, &turn{come: make(chan struct{})}, request)
}

// open is send for a request that opens a session. It takes every other turn: others that wait might belong to sessions
// that are over.
func (o *outage) open(ctx context.Context, request func() error) error {
	return o.sendInTurn(ctx, &turn{opens: true, come: make(chan struct{})}, request)
}

func (o *outage) sendInTurn(ctx context.Context, t *turn, request func() error) error {
	if err := o.wait(ctx, t); err != nil {
		return err
	}
	sent := time.Now()
	err := request()
	switch {
	case isAnswer(err):
		o.answer()
	case adapter.Uncertain(err) && ctx.Err() == nil: // other errors prove nothing: a driver might know without a request
		o.fail(sent, err)
	}
	return err
}

// wait waits for a turn. Its error matches ErrUnavailable.
func (o *outage) wait(ctx context.Context, t *turn) error {
	o.mu.Lock()
	if o.began.IsZero() {
		o.mu.Unlock()
		return nil
	}
	o.waiting = append(o.waiting, t)
	o.grant()
	o.mu.Unlock()
	select {
	case <-t.come:
		return nil
	case <-ctx.Done():
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting = slices.DeleteFunc(o.waiting, func(other *turn) bool { return other == t })
	return o.errLocked()
}

// grant lets the next request through, or sets the timer for that. The caller holds mu.
func (o *outage) grant() {
	if len(o.waiting) == 0 {
		return
	}
	now := time.Now()
	if !now.Before(o.next) {
		i := max(0, slices.IndexFunc(o.waiting, func(t *turn) bool { return t.opens != o.opened }))
		t := o.waiting[i]
		o.waiting = slices.Delete(o.waiting, i, i+1)
		o.pause = min(max(leastPause, 2*o.pause), mostPause)
		o.opened, o.next = t.opens, now.Add(o.pause)
		close(t.come)
	}
	if o.timer == nil {
		o.timer = time.AfterFunc(o.next.Sub(now), func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.grant()
		})
		return
	}
	o.timer.Reset(o.next.Sub(now))
}

// answer notes that the service has answered.
func (o *outage) answer() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answered = time.Now()
	if o.began.IsZero() {
		return
	}
	if o.warned {
		o.logger.add(slog.LevelInfo, "the service answers again", "store", o.name, "after", o.answered.Sub(o.began).Round(time.Millisecond))
	}
	o.began, o.warned, o.pause = time.Time{}, false, 0
	for _, t := range o.waiting {
		close(t.come)
	}
	o.waiting = nil
}

// fail notes that a request was not answered.
func (o *outage) fail(sent time.Time, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.answered.After(sent) { // such as by another server
		return
	}
	o.cause = cause(err)
	if !o.began.IsZero() {
		return
	}
	o.began = sent
	o.warn = time.AfterFunc(unnoticed, func() { o.lasts(sent) })
}

// lasts logs the outage that began then, if it still lasts.
func (o *outage) lasts(began time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.began.Equal(began) && !o.warned {
		o.warned = true
		o.logger.add(slog.LevelWarn, "the service does not answer", "store", o.name, "cause", o.cause)
	}
}

// err returns why requests wait, or nil if there is no outage.
func (o *outage) err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.began.IsZero() {
		return nil
	}
	return o.errLocked()
}

func (o *outage) errLocked() error { return fmt.Errorf("%w: %s", store.ErrUnavailable, o.cause) }

// close stops the timers. Nothing is sent any more.
func (o *outage) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range []*time.Timer{o.warn, o.timer} {
		if t != nil {
			t.Stop()
		}
	}
}
