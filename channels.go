package leadership

import (
	"context"
	"sync"
)

// channels are those of RunForElection. Nothing ever blocks on them: the present state replaces what a slow reader
// has not read yet. A false is never left out, so a reader that saw true always learns that the term ended. A true that
// was not read before the term ended is left out.
type channels struct {
	mu       sync.Mutex
	election chan bool  // guarded by mu, as is errors; nil before RunForElection; holds [false], [true] or [false true]
	errors   chan error // holds the latest
	leading  bool       // true was sent last
}

// RunForElection stands for election in the background, until Stop. The first channel carries false at once, then true
// each time a term of the candidate's begins and false each time one ends; it then stands again by itself. The second
// carries errors, the latest replacing one that was not read. Nothing waits for slow or absent readers; a true that was
// not read before the term ended is taken back. IsLeader is always right; a value read from the channel was right when
// it was sent.
//
// It acknowledges when the won callbacks have returned, unless Options.ManualAcknowledge leaves that to the caller.
// After Stop, or a permanent error (the last on the second channel), both channels are closed; a candidate that led has
// been sent a final false. If the candidate is running or stopped already, the channels that it returns carry that
// error and are closed.
func (c *Candidate) RunForElection() (<-chan bool, <-chan error) {
	election, errs := make(chan bool, 2), make(chan error, 1)
	d, err := c.enter(context.Background(), true)
	if err != nil {
		errs <- err
		close(election)
		close(errs)
		return election, errs
	}
	c.channels.open(election, errs)
	go func() { // Done waits for d.wait
		defer d.wait()
		defer c.channels.close()
		exited := true
		defer func() {
			if exited {
				c.channels.failed(errExited)
			}
		}()
		if err := c.run(d, c.hold); err != nil {
			c.channels.failed(err)
		}
		exited = false
	}()
	return election, errs
}

func (ch *channels) open(election chan bool, errs chan error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.election, ch.errors = election, errs
	election <- false
}

// termBegan sends true if the term still goes on. Term.finish clears the term before it calls termEnded, so that no
// true follows the false of its own term.
func (ch *channels) termBegan(goesOn func() bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.election != nil && goesOn() {
		ch.leading = true
		ch.election <- true // there is room: at most one false is waiting
	}
}

// termEnded sends false, and takes back what was not read.
func (ch *channels) termEnded() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if !ch.leading {
		return
	}
	ch.leading = false
	drain(ch.election)
	ch.election <- false
}

func (ch *channels) failed(err error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.errors == nil {
		return
	}
	drain(ch.errors)
	ch.errors <- err
}

func (ch *channels) close() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	close(ch.election)
	close(ch.errors)
	ch.election, ch.errors = nil, nil
}

// drain empties a channel of which the caller is the only sender.
func drain[T any](ch chan T) {
	for {
		select {
		case <-ch:
		default:
			return
		}
	}
}
