package leadership

import (
	"fmt"
	"sync"
)

// drive is one use of a candidate: a call of Run or RunForElection, or a call of Campaign with the term that it
// returned. A candidate has one at a time.
type drive struct {
	candidate *Candidate
	serves    bool           // Run or RunForElection: it gives the ballots of its terms back by itself
	tasks     sync.WaitGroup // goroutines that it started; Run waits for them, Campaign leaves them to Done
	over      sync.Once
}

// enter begins a drive, unless the candidate has one or is stopped.
func (c *Candidate) enter(serves bool) (*drive, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.life.Err() != nil:
		return nil, ErrStopped
	case c.drive != nil:
		return nil, fmt.Errorf("%w: %q", ErrRunning, c.election)
	case !c.tasks.begin():
		return nil, ErrStopped
	}
	c.drive = &drive{candidate: c, serves: serves}
	return c.drive, nil
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

// start runs f in a goroutine of the drive. The channel that it returns is closed when f has returned.
func (d *drive) start(f func()) <-chan struct{} {
	done := make(chan struct{})
	d.candidate.tasks.begin() // never refused: the drive is a task
	d.tasks.Go(func() {
		defer d.candidate.tasks.end()
		defer close(done)
		f()
	})
	return done
}
