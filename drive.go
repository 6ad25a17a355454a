package leadership

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/teller"
	"github.com/go-leadership/leadership/store"
)

// drive is one use of a candidate: a call of Run, or a call of Campaign with the term that it returned.
type drive struct {
	c        *Candidate
	ctx      context.Context // that of the call: ends with it, and with Stop
	cancel   context.CancelCauseFunc
	serves   bool               // Run: it gives the ballots of its terms back by itself
	fit      *fitness           // nil without a check
	endCheck context.CancelFunc // ends its goroutine
	tasks    sync.WaitGroup     // what it has started; one of them, or the call, starts the next
	before   uint64             // how much had been told when it began
}

// enter begins a drive, unless there is one or Stop was called.
func (c *Candidate) enter(ctx context.Context, serves bool) (*drive, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil, ErrStopped
	}
	if c.current != nil {
		return nil, fmt.Errorf("%w: %q", ErrRunning, c.election)
	}
	d := &drive{c: c, serves: serves, before: c.told.Added()}
	d.ctx, d.cancel = context.WithCancelCause(ctx)
	c.tasks.begin() // not refused, as Stop was not called
	c.current = d
	c.becomes(Casting, nil)
	if d.fit = newFitness(c); d.fit != nil {
		checked, end := context.WithCancel(context.Background())
		d.endCheck = end
		d.tasks.Go(func() { d.fit.run(checked) })
	}
	return d, nil
}

func (c *Candidate) isStopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopped
}

// keep makes a term the candidate's, unless Stop was called. IsLeader is true from then on.
func (c *Candidate) keep(t *Term) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return ErrStopped
	}
	c.term.Store(t)
	return nil
}

// letGo forgets a term that is over and whose ballot has been given back, with the values of its caller's context.
func (c *Candidate) letGo(t *Term) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.term.CompareAndSwap(t, nil) && c.current != nil { // not a later one
		c.becomes(Casting, nil)
	}
}

// wait ends a drive of Run, when all that it has started is over. It waits a little until that has been told, since the
// program might end with Run.
func (d *drive) wait() {
	d.endChecks()
	d.tasks.Wait()
	d.free()
	defer d.c.tasks.end()
	if d.c.told.Added() == d.before { // a hook might have called Run, which would wait for the hook
		return
	}
	teller.Wait(d.c.told)
}

// leave ends a drive of Campaign, unless it is over already. Done waits for what it has started; Campaign does not.
func (d *drive) leave() {
	if d.free() {
		d.endChecks()
		go func() {
			d.tasks.Wait()
			d.c.tasks.end()
		}()
	}
}

func (d *drive) endChecks() {
	if d.fit != nil {
		d.endCheck()
	}
}

// free makes the candidate idle, and reports whether it was not.
func (d *drive) free() bool {
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	if d.c.current != d {
		return false
	}
	d.c.current = nil
	d.c.becomes(Idle, nil)
	return true
}

// tasks counts what a candidate or a follower still does: calls in progress and goroutines. Done is closed when Stop
// has been called and nothing is left.
type tasks struct {
	mu    sync.Mutex
	count int           // guarded by mu; one of them stands for Stop, which is still to be called
	done  chan struct{} // closed, under mu, when count is zero
	once  sync.Once     // of stop
}

func newTasks() *tasks { return &tasks{count: 1, done: make(chan struct{})} }

// begin counts a task. It is refused once done is closed. While another task runs it never is.
func (t *tasks) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count == 0 {
		return false
	}
	t.count++
	return true
}

func (t *tasks) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count--
	if t.count == 0 {
		close(t.done)
	}
}

// run runs f in a goroutine and reports whether it does: not once done is closed.
func (t *tasks) run(f func()) bool {
	if !t.begin() {
		return false
	}
	go func() {
		defer t.end()
		f()
	}()
	return true
}

// stop makes the end of the last task close done. It does not block, and may be called again.
func (t *tasks) stop() { t.once.Do(t.end) }

// retry reports a failure and waits before the next try.
func (n *news) retry(ctx context.Context, err error, in time.Duration) {
	n.tell(Event{Kind: AttemptFailed, Err: err, RetryIn: in})
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
func observe(ctx context.Context, st store.Store, ask func(prev *store.Known) (store.Known, error), tell func(Event),
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
			tell(Event{Kind: AttemptFailed, Err: err, RetryIn: in})
			sleep(ctx, in)
			continue
		}
		b.reset()
		prev = &known
		show(known)
	}
}
