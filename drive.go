package leadership

import (
	"context"
	"fmt"
	"sync"
)

// drive is one use of a candidate: a call of Run or RunForElection, or a call of Campaign with the term that it
// returned. A candidate has one at a time.
type drive struct {
	candidate *Candidate
	ctx       context.Context // that of the call: ends with it, and with Stop
	cancel    context.CancelCauseFunc
	serves    bool           // Run or RunForElection: it gives the ballots of its terms back by itself
	tasks     sync.WaitGroup // what it has started; one of them, or the call, starts the next
}

// enter begins a drive, unless the candidate has one or is stopped.
func (c *Candidate) enter(ctx context.Context, serves bool) (*drive, error) {
	d := &drive{candidate: c, serves: serves}
	d.ctx, d.cancel = context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	switch {
	case c.stopped:
		err = ErrStopped
	case c.drive != nil:
		err = fmt.Errorf("%w: %q", ErrRunning, c.election)
	default:
		c.tasks.begin() // not refused, as Stop was not called
		c.drive = d
		return d, nil
	}
	d.cancel(err)
	return nil, err
}

// isStopped reports whether Stop was called.
func (c *Candidate) isStopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopped
}

// wait ends a drive of Run, when all that it has started is over.
func (d *drive) wait() {
	d.tasks.Wait()
	d.free()
	d.candidate.tasks.end()
}

// leave ends a drive of Campaign, unless it is over already. Done waits for what it has started; Campaign does not.
func (d *drive) leave() {
	if d.free() {
		go func() {
			d.tasks.Wait()
			d.candidate.tasks.end()
		}()
	}
}

// free makes the candidate idle, and reports whether it was not.
func (d *drive) free() bool {
	c := d.candidate
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drive != d {
		return false
	}
	c.drive = nil
	return true
}
