package leadership

import (
	"slices"
	"sync"
)

// queue tells events in the background, one after the other, in a goroutine that runs while there are any. A function of
// the user's that hangs delays the next event of this queue, and nothing else.
type queue struct {
	start func(run func()) // runs a function in a goroutine that the owner waits for
	tell  func(event)

	mu   sync.Mutex
	list []event // guarded by mu, as is busy: what is still to be told
	busy bool    // a goroutine tells, or none may begin yet
}

// add adds an event. It replaces one of its kind that has not been told, so that there are never more than there are kinds.
// It does not block.
func (q *queue) add(e event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = slices.DeleteFunc(q.list, func(waiting event) bool { return waiting.what == e.what })
	q.list = append(q.list, e)
	if !q.busy {
		q.busy = true
		q.start(q.run)
	}
}

// resume tells what has been added while the queue was busy with something else, which is over.
func (q *queue) resume() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy = len(q.list) > 0
	if q.busy {
		q.start(q.run)
	}
}

// run tells. If a function of the user's ends this goroutine, another one goes on.
func (q *queue) run() {
	returned := false
	defer func() {
		if !returned {
			q.resume()
		}
	}()
	for e, ok := q.next(); ok; e, ok = q.next() {
		q.tell(e)
	}
	returned = true
}

func (q *queue) next() (event, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 {
		q.list, q.busy = nil, false
		return event{}, false
	}
	e := q.list[0]
	q.list = q.list[1:]
	return e, true
}
