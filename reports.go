package leadership

import (
	"sync"
	"time"
)

// report is what a term has to tell by hooks and the log.
type report struct {
	what  reported
	time  time.Duration // renewal: from request to confirmation; overdue: what remains of the lease
	cause error         // ended
}

type reported int

const (
	renewal reported = iota
	overdue
	unacknowledged
	requested // an operator has asked for the end of the term
	ended     // the last
)

// reports are those of a term. They are made one after the other in a goroutine that runs while there is something to
// report: a function of the user's that hangs delays the next report, and not the end of the term. They are a task of the
// drive until the last one has been made.
type reports struct {
	term  *Term
	told  sync.WaitGroup // until the last report has been made
	timer *time.Timer    // adds unacknowledged; nil if the candidate has warned of that before

	mu   sync.Mutex
	list []report // guarded by mu, as are all below: what is still to be reported
	busy bool     // a goroutine makes reports, or none may begin yet
	over bool     // the last one has been added
}

// open begins the reports of a term. None is made before resume is called.
func (r *reports) open(t *Term) {
	r.term, r.busy = t, true
	r.told.Add(1)
	t.drive.begin()
	if !t.candidate.warned.Load() {
		r.timer = time.AfterFunc(t.candidate.store.TTL(), func() { r.add(report{what: unacknowledged}) })
	}
}

// resume makes the reports that have been added: the hook that reports the beginning has returned, or another one has
// ended its goroutine.
func (r *reports) resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = len(r.list) > 0
	if r.busy {
		r.term.drive.start(r.run)
	}
}

// add adds a report, unless the last one has been added. A renewal replaces one that has not been reported. It does not
// block.
func (r *reports) add(n report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	if n.what == ended {
		r.over = true
		if r.timer != nil {
			r.timer.Stop()
		}
	}
	if last := len(r.list) - 1; last >= 0 && n.what == renewal && r.list[last].what == renewal {
		r.list = r.list[:last]
	}
	r.list = append(r.list, n)
	if !r.busy {
		r.busy = true
		r.term.drive.start(r.run)
	}
}

// wait waits until the last report has been made.
func (r *reports) wait() { r.told.Wait() }

// run makes reports. If a hook ends this goroutine, another one goes on.
func (r *reports) run() {
	returned := false
	defer func() {
		if !returned {
			r.resume()
		}
	}()
	for n, ok := r.next(); ok; n, ok = r.next() {
		r.make(n)
	}
	returned = true
}

func (r *reports) next() (report, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) == 0 {
		r.list, r.busy = nil, false
		return report{}, false
	}
	n := r.list[0]
	r.list = r.list[1:]
	return n, true
}

func (r *reports) make(n report) {
	t, c := r.term, r.term.candidate
	hooks, token := c.opts.Hooks, t.Token()
	switch n.what {
	case renewal:
		hooks.renewed(c.election, token, n.time)
	case overdue:
		c.log.Warn("renewals are overdue, leadership ends soon without one", "token", token, "remaining", n.time)
		hooks.inJeopardy(c.election, token, n.time)
	case unacknowledged:
		if !t.acknowledged.Load() && !c.warned.Swap(true) {
			c.log.Warn("leading for a TTL without an acknowledgement: "+
				"followers do not know of this leader until the takeover is acknowledged", "token", token, "ttl", c.store.TTL())
		}
	case requested:
		<-t.ctx.Done() // finish is about to end it
		hooks.resignationRequested(c.election, token)
	case ended:
		defer t.drive.end()
		defer r.told.Done()
		<-t.ctx.Done()
		hooks.termEnded(c.election, token, n.cause)
	}
}
