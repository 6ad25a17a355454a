package file

import (
	"cmp"
	"context"
	"time"

	"github.com/go-leadership/leadership/internal/faulty"
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
	*faultyLine
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

// faultyLine is a line between a store and its directory with the switches of package conformance. A store that is cut
// off behaves as if its process had been stopped: its session ends at the deadline.
type faultyLine struct {
	*faulty.Line
	driver *driver
	queue  chan delivery // has room for all that a case of the suite makes; news writes
}

// delivery is news under way.
type delivery struct {
	sent time.Time
	tell func()
}

// newFaulty returns the line of a driver. It ends with the driver.
func newFaulty() *faultyLine {
	return &faultyLine{Line: faulty.New(), queue: make(chan delivery, 1<<20)}
}

// begin begins to deliver news.
func (f *faultyLine) begin(d *driver) {
	f.driver = d
	d.life.Go(func() {
		for {
			select {
			case n := <-f.queue:
				if f.Await(d.life.Background, n.sent) != nil {
					return
				}
				n.tell()
			case <-d.life.Background.Done():
				return
			}
		}
	})
}

// request implements line.
func (f *faultyLine) request(ctx context.Context, do func()) error {
	f.Count()
	var failed error
	err := f.Send(ctx, func() { failed = (direct{f.driver.life}).request(ctx, do) })
	return cmp.Or(failed, err)
}

// news implements line.
func (f *faultyLine) news(tell func()) { f.queue <- delivery{time.Now(), tell} }
