package file

import (
	"cmp"
	"context"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/faulty"
)

// faultyLine is a line with the switches of package conformance. A store that is cut off behaves as if its process had
// been stopped: its session ends at the deadline.
type faultyLine struct {
	*faulty.Line
	direct
	queue chan delivery // has room for all that a case of the suite makes; news writes
}

// delivery is news under way.
type delivery struct {
	sent time.Time
	tell func()
}

// newFaultyLine returns a line that ends with the driver.
func newFaultyLine(line *faulty.Line, life *adapter.Lifecycle) *faultyLine {
	f := &faultyLine{Line: line, direct: direct{life}, queue: make(chan delivery, 1<<20)}
	life.Go(f.deliver)
	return f
}

// deliver delivers news in order.
func (f *faultyLine) deliver() {
	for {
		select {
		case n := <-f.queue:
			if f.Await(f.life.Background, n.sent) != nil {
				return
			}
			n.tell()
		case <-f.life.Background.Done():
			return
		}
	}
}

// request implements line.
func (f *faultyLine) request(ctx context.Context, do func()) error {
	f.Count()
	var failed error
	err := f.Send(ctx, func() { failed = f.direct.request(ctx, do) })
	return cmp.Or(failed, err)
}

// news implements line.
func (f *faultyLine) news(tell func()) { f.queue <- delivery{time.Now(), tell} }
