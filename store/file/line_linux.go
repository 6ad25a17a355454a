package file

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/faulty"
	"github.com/go-leadership/leadership/store"
)

// line lies between a store and its directory. The suites, leadership conformance among them, cut it and slow it down: a
// store that is cut off behaves as if its process had been stopped, and its session ends at the deadline.
type line struct {
	faults *faulty.Line // nil in programs
	life   *adapter.Lifecycle
	queue  chan delivery // of news, if there are faults; has room for all that a case makes
}

// delivery is news under way.
type delivery struct {
	sent time.Time
	tell func()
}

// newLine returns a line that ends with the driver.
func newLine(faults *faulty.Line, life *adapter.Lifecycle) *line {
	l := &line{faults: faults, life: life}
	if faults != nil {
		l.queue = make(chan delivery, 1<<20)
		life.Go(l.deliver)
	}
	return l
}

// request carries out a request. ErrUnavailable: it is not carried out. ErrUnknownOutcome: it may be, now or later.
func (l *line) request(ctx context.Context, do func()) error {
	if l.faults == nil {
		return l.carryOut(ctx, do)
	}
	l.faults.Count()
	var failed error
	err := l.faults.Send(ctx, func() { failed = l.carryOut(ctx, do) })
	return cmp.Or(failed, err)
}

// patience is how long a request is waited for after its caller has given up. A working disk answers sooner, and then
// the outcome is known.
const patience = 200 * time.Millisecond

// carryOut carries out a request. It goes on if its caller gives up: a system call can't be interrupted.
func (l *line) carryOut(ctx context.Context, do func()) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
	}
	done := make(chan struct{})
	if !l.life.Go(func() { do(); close(done) }) {
		return store.ErrUnavailable
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-done:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, context.Cause(ctx))
	}
}

// news carries what the store is told, in order.
func (l *line) news(tell func()) {
	if l.faults == nil {
		tell()
	} else {
		l.queue <- delivery{time.Now(), tell}
	}
}

// deliver delivers news in order.
func (l *line) deliver() {
	for {
		select {
		case n := <-l.queue:
			if l.faults.Await(l.life.Background, n.sent) != nil {
				return
			}
			n.tell()
		case <-l.life.Background.Done():
			return
		}
	}
}
