package adapter

import (
	"context"
	"time"
)

// Retries is the back-off of a loop that sends a request until it is answered: from 50 ms it doubles to 400 ms. The zero
// value is ready to use. One goroutine uses it.
type Retries struct{ next time.Duration }

// Pause waits before the next attempt, or until ctx ends.
func (r *Retries) Pause(ctx context.Context) {
	r.PauseOr(ctx, nil)
}

// PauseOr is Pause that also ends when the bell rings.
func (r *Retries) PauseOr(ctx context.Context, bell <-chan struct{}) {
	r.next = min(max(50*time.Millisecond, 2*r.next), 400*time.Millisecond)
	timer := time.NewTimer(r.next)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-bell:
	case <-ctx.Done():
	}
}

// Reset makes the next pause the shortest: an attempt has succeeded.
func (r *Retries) Reset() { r.next = 0 }
