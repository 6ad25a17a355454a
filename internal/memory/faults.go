package memory

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/faulty"
	"github.com/go-leadership/leadership/store"
)

// Faults are the switches on the line between one store and its service. They take effect at once, for requests under
// way too, and may be used at any time from any goroutine.
type Faults struct {
	*faulty.Line
	driver *driver
	double atomic.Bool                 // notifications come twice
	late   atomic.Int64                // how much longer than its TTL the service keeps the session
	fate   atomic.Pointer[func() Fate] // decides on each request, if it is not nil
}

// Double makes each notification come twice, until Heal.
func (f *Faults) Double() { f.double.Store(true) }

// Mute makes the watches that are set silent for good. Watches that are set later are not affected.
func (f *Faults) Mute() { f.driver.service.mute(f.driver.line) }

// Break breaks the connection: notifications on their way are lost, and the store watches and reads anew on the next one.
func (f *Faults) Break() {
	f.driver.broken.Add(1)
	f.driver.service.hangUp(f.driver.line)
}

// DelayExpiry makes the service keep the session longer than its TTL by this time, from the next renewal on.
func (f *Faults) DelayExpiry(d time.Duration) { f.late.Store(int64(d)) }

// Fate is what happens to one request, in addition to the switches. The zero Fate lets it pass.
type Fate struct {
	Err   error         // the request is not carried out, and fails with this error
	Lost  bool          // the request is not carried out, and no answer comes
	Late  time.Duration // no answer comes, and a request that changes something is carried out this much later
	Twice bool          // the request is carried out once more before the answer comes
}

// Decide lets decide choose what happens to each request that is sent. It is not asked about requests that open or
// renew the session, or that confirm what has been told. nil lets all pass. It is called from several goroutines.
func (f *Faults) Decide(decide func() Fate) { f.fate.Store(&decide) }

// Heal undoes Cut, LoseReplies, Stall and Double.
func (f *Faults) Heal() {
	f.double.Store(false)
	f.Line.Heal()
}

// Expire makes the service end the session at once, before its TTL has passed. No promise covers that.
func (f *Faults) Expire() { f.driver.service.drop(f.driver.last.Load()) }

// read carries out a request that changes nothing.
func read[T any](ctx context.Context, f *Faults, request func() (T, error)) (T, error) {
	return send(ctx, f, false, request)
}

// write carries out a request that changes something, and returns nothing.
func write(ctx context.Context, f *Faults, request func() error) error {
	_, err := send(ctx, f, true, func() (struct{}, error) { return struct{}{}, request() })
	return err
}

// pass carries out a request that is not counted and has no fate.
func (f *Faults) pass(ctx context.Context, request func()) error {
	return f.Line.Send(ctx, func() { f.driver.service.locked(request) })
}

// send carries out one request.
func send[T any](ctx context.Context, f *Faults, changes bool, request func() (T, error)) (v T, err error) {
	f.Line.Count()
	var fate Fate
	if decide := f.fate.Load(); decide != nil && *decide != nil {
		fate = (*decide)()
	}
	var answer error
	carryOut := func() { f.driver.service.locked(func() { v, answer = request() }) }
	passed := f.Line.Send(ctx, func() {
		switch {
		case fate.Err != nil:
			answer = fate.Err
		case fate.Lost || fate.Late > 0:
			answer = store.ErrUnknownOutcome
			if fate.Late > 0 && changes {
				time.AfterFunc(fate.Late, func() { f.driver.service.locked(func() { _, _ = request() }) })
			}
		default:
			carryOut()
			if fate.Twice {
				carryOut()
			}
		}
	})
	if passed != nil || answer != nil {
		var none T
		return none, cmp.Or(passed, answer)
	}
	return v, nil
}
