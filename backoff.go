package leadership

import (
	"context"
	"math/rand/v2"
	"time"
)

// The time between two tries: the first after an error, the first after a ballot or a term that just ended, and the
// longest after either. Terms that end again and again at once must not keep the store busy.
const (
	errorBackoff = 100 * time.Millisecond
	turnBackoff  = time.Millisecond
	lastBackoff  = 5 * time.Second
)

// backoff is the time to wait before trying again: first, then doubled after each failure up to lastBackoff, at random
// between half and all of it.
type backoff struct{ first, next time.Duration }

func (b *backoff) delay() time.Duration {
	b.next = min(max(2*b.next, b.first), lastBackoff)
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
