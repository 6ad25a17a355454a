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
	tasks     sync.WaitGroup // what it has begun; Run waits for that, Campaign leaves it to Done
	over      sync.Once
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

// exit ends the drive, once: the candidate is idle.
func (d *drive) exit() {
	d.over.Do(func() {
		c := d.candidate
		c.mu.Lock()
		c.drive = nil
		c.mu.Unlock()
		c.tasks.end()
	})
}

// wait waits for all that the drive has started, and ends it.
func (d *drive) wait() {
	d.tasks.Wait()
	d.exit()
}

// begin counts a task of the drive, which is not over, or has another task.
func (d *drive) begin() {
	d.candidate.tasks.begin() // never refused: the drive is a task, and so is the other one
	d.tasks.Add(1)
}

func (d *drive) end() {
	d.tasks.Done()
	d.candidate.tasks.end()
}

// start runs f in a goroutine, as a task of the drive.
func (d *drive) start(f func()) {
	d.begin()
	go func() {
		defer d.end()
		f()
	}()
}
