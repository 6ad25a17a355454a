package leadership

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-leadership/leadership/store"
)

// retry reports a failure and waits before the next try.
func (n *news) retry(ctx context.Context, err error, in time.Duration) {
	n.tell(event{what: attemptFailed, err: err, time: in})
	sleep(ctx, in)
}

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

// deniedFor is how long a service has to deny everything before a candidate or follower believes that it always will.
// A service denies also while it can't reach what knows the permissions, and for some time after that, since it caches
// what it found: a Consul agent for 30 s (acl_token_ttl). The rest is for the requests and the back-off between them.
const deniedFor = 40 * time.Second

// denial tells a denial that lasts from one that passes.
type denial struct {
	since time.Time // of the first in an unbroken row; zero if the last attempt was not denied
}

// permanent reports whether an attempt that ended with err shows that no other will succeed. A denial shows that only if
// the store never worked, and each answer for deniedFor was a denial. A store that has worked once had permission, and
// might get it back. An error that matches ErrUnavailable too is a denial by a part of the service that might not know.
func (d *denial) permanent(err error, st store.Store) bool {
	switch {
	case st.Worked() || !errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrUnavailable):
		d.since = time.Time{}
	case d.since.IsZero():
		d.since = time.Now()
	case time.Since(d.since) >= deniedFor:
		return true
	}
	return store.Permanent(err)
}

// observe asks who leads, again and again, and calls show with each answer. It tells of an error and asks again after a
// while, but returns one that is permanent. It returns nil when ctx has ended.
func observe(ctx context.Context, st store.Store, ask func(prev *store.Known) (store.Known, error), tell func(event),
	show func(store.Known)) error {
	var prev *store.Known
	b := backoff{first: errorBackoff}
	var denied denial
	for {
		known, err := ask(prev)
		switch {
		case ctx.Err() != nil:
			return nil
		case denied.permanent(err, st):
			return err
		case err != nil:
			in := b.delay()
			tell(event{what: attemptFailed, err: err, time: in})
			sleep(ctx, in)
			continue
		}
		b.reset()
		prev = &known
		show(known)
	}
}
