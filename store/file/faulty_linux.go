package file

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/filefaults"
	"github.com/go-leadership/leadership/store"
)

func init() { filefaults.Open = openFaulty }

// openFaulty opens the store of a URL on a faulty line.
func openFaulty(u *store.URL) (store.Store, error) {
	c, err := configOf(u)
	if err != nil {
		return nil, err
	}
	return openLined(c)
}

// lined is a store on a faulty line.
type lined struct {
	*Store
	*faulty
}

// openLined opens a store on a faulty line.
func openLined(c Config) (lined, error) {
	if err := c.complete(); err != nil {
		return lined{}, err
	}
	f := newFaulty()
	d, err := newDriverWith(c, kernel{}, f, nil)
	if err != nil {
		return lined{}, err
	}
	f.begin(d)
	return lined{newStore(d, c), f}, nil
}

// faulty is a line between a store and its directory with the switches of package conformance. A store that is cut off
// is one whose process has been stopped: its session ends at the deadline.
type faulty struct {
	driver *driver
	queue  chan delivery // has room for all that a case of the suite makes; news writes

	mu       sync.Mutex
	cut      bool // guarded by mu, as are all below
	lose     bool
	delay    time.Duration
	replies  time.Duration
	requests int
	changed  chan struct{} // closed and replaced when a switch is set
}

// delivery is news on its way.
type delivery struct {
	sent time.Time
	tell func()
}

// newFaulty returns the line of a driver. It ends with the driver.
func newFaulty() *faulty {
	return &faulty{changed: make(chan struct{}), queue: make(chan delivery, 1<<20)}
}

// begin begins to deliver news.
func (f *faulty) begin(d *driver) {
	f.driver = d
	d.life.Go(func() {
		for {
			select {
			case n := <-f.queue:
				if _, err := f.wait(d.life.Background, n.sent, f.wayBack, func() bool { return f.cut || f.lose }); err != nil {
					return
				}
				n.tell()
			case <-d.life.Background.Done():
				return
			}
		}
	})
}

// Cut implements conformance.Faults.
func (f *faulty) Cut() { f.set(func() { f.cut = true }) }

// LoseReplies implements conformance.Faults.
func (f *faulty) LoseReplies() { f.set(func() { f.lose = true }) }

// Delay implements conformance.Faults.
func (f *faulty) Delay(d time.Duration) { f.set(func() { f.delay = d }) }

// DelayReplies implements conformance.Faults.
func (f *faulty) DelayReplies(d time.Duration) { f.set(func() { f.replies = d }) }

// Heal implements conformance.Faults.
func (f *faulty) Heal() { f.set(func() { f.cut, f.lose = false, false }) }

// Requests implements conformance.Faults.
func (f *faulty) Requests() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests
}

func (f *faulty) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.changed)
	f.changed = make(chan struct{})
}

// The delays of the two directions. The caller holds mu.
func (f *faulty) wayOut() time.Duration  { return f.delay }
func (f *faulty) wayBack() time.Duration { return f.delay + f.replies }

// request implements line.
func (f *faulty) request(ctx context.Context, do func()) error {
	f.mu.Lock()
	f.requests++
	f.mu.Unlock()
	if _, err := f.wait(ctx, time.Now(), f.wayOut, func() bool { return f.cut }); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	if err := (direct{f.driver.life}).request(ctx, do); err != nil {
		return err
	}
	lost, err := f.wait(ctx, time.Now(), f.wayBack, func() bool { return f.cut || f.lose })
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
	case lost:
		return store.ErrUnknownOutcome
	}
	return nil
}

// news implements line.
func (f *faulty) news(tell func()) { f.queue <- delivery{time.Now(), tell} }

// wait waits until nothing blocks the line and the delay is over, both as the switches are set meanwhile. It reports
// whether replies were lost at any time until then.
func (f *faulty) wait(ctx context.Context, began time.Time, delay func() time.Duration, blocked func() bool) (lost bool, err error) {
	for {
		f.mu.Lock()
		lost = lost || f.lose
		waits, changed, left := blocked(), f.changed, delay()-time.Since(began)
		f.mu.Unlock()
		switch {
		case !waits && left <= 0:
			return lost, nil
		case ctx.Err() != nil:
			return lost, context.Cause(ctx)
		}
		timer := time.NewTimer(max(left, 0))
		after := timer.C
		if waits {
			after = nil
		}
		select {
		case <-after:
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}
