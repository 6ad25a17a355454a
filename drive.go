package leadership

import (
	"context"
	"fmt"
	"sync"
)

// drives are the uses of a candidate: one at a time, until Stop.
type drives struct {
	election string
	tasks    *tasks // each drive is one of them, with all that it has started

	mu      sync.Mutex
	stopped bool   // guarded by mu, as is current: Stop was called
	current *drive // nil while the candidate is idle
}

// drive is one use of a candidate: a call of Run or RunForElection, or a call of Campaign with the term that it
// returned.
type drive struct {
	drives *drives
	ctx    context.Context // that of the call: ends with it, and with Stop
	cancel context.CancelCauseFunc
	serves bool           // Run or RunForElection: it gives the ballots of its terms back by itself
	tasks  sync.WaitGroup // what it has started; one of them, or the call, starts the next
}

// enter begins a drive, unless there is one or Stop was called.
func (s *drives) enter(ctx context.Context, serves bool) (*drive, error) {
	d := &drive{drives: s, serves: serves}
	d.ctx, d.cancel = context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	switch {
	case s.stopped:
		err = ErrStopped
	case s.current != nil:
		err = fmt.Errorf("%w: %q", ErrRunning, s.election)
	default:
		s.tasks.begin() // not refused, as Stop was not called
		s.current = d
		return d, nil
	}
	d.cancel(err)
	return nil, err
}

// stop refuses further drives, and ends the context of the current one. Nothing that unlessStopped does comes after it.
func (s *drives) stop() {
	s.mu.Lock()
	s.stopped = true
	d := s.current
	s.mu.Unlock()
	if d != nil {
		d.cancel(ErrStopped)
	}
	s.tasks.stop()
}

func (s *drives) isStopped() bool {
	return s.unlessStopped(func() {}) != nil
}

// unlessStopped calls a function that does not block, or returns ErrStopped if Stop was called.
func (s *drives) unlessStopped(f func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return ErrStopped
	}
	f()
	return nil
}

// wait ends a drive of Run, when all that it has started is over.
func (d *drive) wait() {
	d.tasks.Wait()
	d.free()
	d.drives.tasks.end()
}

// leave ends a drive of Campaign, unless it is over already. Done waits for what it has started; Campaign does not.
func (d *drive) leave() {
	if d.free() {
		go func() {
			d.tasks.Wait()
			d.drives.tasks.end()
		}()
	}
}

// free makes the candidate idle, and reports whether it was not.
func (d *drive) free() bool {
	d.drives.mu.Lock()
	defer d.drives.mu.Unlock()
	if d.drives.current != d {
		return false
	}
	d.drives.current = nil
	return true
}
