package leadership

import (
	"sync"
	"time"
)

// reports are the events of a term that are told in the background, one after the other, by a goroutine that runs while
// there are any: a function of the user's that hangs delays the next report, and not the end of the term. They are a task
// of the drive until the last one, termEnded, has been told.
type reports struct {
	term  *Term
	told  sync.WaitGroup // until the last one has been told
	timer *time.Timer    // adds termUnacknowledged; nil if the candidate has warned of that before

	mu   sync.Mutex
	list []event // guarded by mu, as are all below: what is still to be told
	busy bool    // a goroutine tells, or none may begin yet
	over bool    // the last one has been added
}

// open begins the reports of a term. None is told before resume is called.
func (r *reports) open(t *Term) {
	r.term, r.busy = t, true
	r.told.Add(1)
	t.drive.begin()
	if !t.candidate.warned.Load() {
		r.timer = time.AfterFunc(t.candidate.store.TTL(), func() {
			if !t.acknowledged.Load() {
				r.add(event{what: termUnacknowledged})
			}
		})
	}
}

// resume tells what has been added: the hook that reports the beginning has returned, or another one has
// ended its goroutine.
func (r *reports) resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = len(r.list) > 0
	if r.busy {
		r.term.drive.start(r.run)
	}
}

// add adds an event, unless the last one has been added. A renewal replaces one that has not been told. It does not
// block.
func (r *reports) add(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	if e.what == termEnded {
		r.over = true
		if r.timer != nil {
			r.timer.Stop()
		}
	}
	if last := len(r.list) - 1; last >= 0 && e.what == termRenewed && r.list[last].what == termRenewed {
		r.list = r.list[:last]
	}
	r.list = append(r.list, e)
	if !r.busy {
		r.busy = true
		r.term.drive.start(r.run)
	}
}

// wait waits until the last one has been told.
func (r *reports) wait() { r.told.Wait() }

// run tells. If a hook ends this goroutine, another one goes on.
func (r *reports) run() {
	returned := false
	defer func() {
		if !returned {
			r.resume()
		}
	}()
	for e, ok := r.next(); ok; e, ok = r.next() {
		r.tell(e)
	}
	returned = true
}

func (r *reports) next() (event, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) == 0 {
		r.list, r.busy = nil, false
		return event{}, false
	}
	e := r.list[0]
	r.list = r.list[1:]
	return e, true
}

func (r *reports) tell(e event) {
	t, c := r.term, r.term.candidate
	e.token = t.Token()
	switch e.what {
	case termUnacknowledged:
		if c.warned.Swap(true) {
			return
		}
	case termRequested:
		<-t.ctx.Done() // finish is about to end it
	case termEnded:
		defer t.drive.end()
		defer r.told.Done()
		<-t.ctx.Done()
	}
	c.tell(e)
}
