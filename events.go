package leadership

import (
	"context"
	"sync"
)

// events are the channels of RunForElection. Nothing ever blocks on them: the present state replaces what a slow reader
// has not read yet. A false is never left out, so a reader that saw true always learns that the term ended. A true that
// was not read before the term ended is left out.
type events struct {
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
	c.events.open(election, errs)
	go func() { // Done waits for d.wait
		defer d.wait()
		defer c.events.close()
		exited := true
		defer func() {
			if exited {
				c.events.failed(errExited)
			}
		}()
		if err := c.run(d, c.hold); err != nil {
			c.events.failed(err)
		}
		exited = false
	}()
	return election, errs
}

func (e *events) open(election chan bool, errs chan error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.election, e.errors = election, errs
	election <- false
}

// termBegan sends true if the term still goes on. Term.finish clears the term before it calls termEnded, so that no
// true follows the false of its own term.
func (e *events) termBegan(goesOn func() bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.election != nil && goesOn() {
		e.leading = true
		e.election <- true // there is room: at most one false is waiting
	}
}

// termEnded sends false, and takes back what was not read.
func (e *events) termEnded() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.leading {
		return
	}
	e.leading = false
	drain(e.election)
	e.election <- false
}

func (e *events) failed(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.errors == nil {
		return
	}
	drain(e.errors)
	e.errors <- err
}

func (e *events) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.election)
	close(e.errors)
	e.election, e.errors = nil, nil
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
