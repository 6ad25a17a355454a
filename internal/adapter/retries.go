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
	r.next = min(max(50*time.Millisecond, 2*r.next), 400*time.Millisecond)
	PauseFor(ctx, r.next)
}

// Reset makes the next pause the shortest: an attempt has succeeded.
func (r *Retries) Reset() { r.next = 0 }
