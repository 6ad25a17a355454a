package engine

import "sync"

// workers is how many things are looked at, at once. A worker whose request has no answer is occupied; so requests of a
// service that does not answer don't pile up.
const workers = 16

// queue holds the ballots, observations and detectors that need a request. Workers run while it is not empty.
type queue struct {
	start func(func()) bool // starts a worker that Close waits for, or returns false when the store has been closed

	mu      sync.Mutex
	list    []*item // guarded by mu, as is running
	running int
}

// item is how the queue knows a ballot, observation or detector. Its state is guarded by the queue's mu.
type item struct {
	work  func() (again bool) // called by one worker at a time
	state state
}

type state int

const (
	idle   state = iota
	queued       // in the list
	busy         // a worker is at it
	dirty        // a worker is at it, and there is more to look at
)

// add makes a worker look at an item, after this call. It does not block.
func (q *queue) add(it *item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch it.state {
	case idle:
		it.state = queued
		q.list = append(q.list, it)
		if q.running < workers && q.start(q.run) {
			q.running++
		}
	case busy:
		it.state = dirty
	}
}

// run is a worker.
func (q *queue) run() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.list) > 0 {
		it := q.list[0]
		q.list = q.list[1:]
		it.state = busy
		q.mu.Unlock()
		again := it.work()
		q.mu.Lock()
		if again || it.state == dirty {
			it.state = queued
			q.list = append(q.list, it)
		} else {
			it.state = idle
		}
	}
	q.list = nil
	q.running--
}
