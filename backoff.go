package leadership

import (
	"context"
	"math/rand/v2"
	"time"
)

// Bounds of the time between two tries after errors.
const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 5 * time.Second
)

// backoff is the time to wait before trying again: doubled after each failure, at random between half and all of it.
type backoff struct{ next time.Duration }

func (b *backoff) delay() time.Duration {
	b.next = min(max(2*b.next, firstBackoff), lastBackoff)
	return b.next/2 + rand.N(b.next/2)
}

func (b *backoff) reset() { b.next = 0 }

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
