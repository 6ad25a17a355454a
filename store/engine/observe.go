package engine

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// observation is what is known of an election's leader, for all callers. It watches from the first call on, and is
// dropped when it has not been used for a TTL. Its goroutine reads; what watches tell goes to the callers without it.
//
// It reads the leader when it begins, when its watch is over or does not tell what has changed, when the confirmations
// are missing, and for a caller that needs the present state. Reads are numbered, so that such a caller gets the answer
// of a read that began after the call.
type observation struct {
	engine   *Engine
	election string
	bell     chan struct{}   // has room for one: a read might be wanted
	ctx      context.Context // ends when the observation is dropped, or the store is closed
	cancel   context.CancelFunc
	callers  int       // guarded by the engine's mu, as is used
	used     time.Time // when the last caller left

	mu      sync.Mutex    // guards all below
	changed chan struct{} // closed and replaced when an answer or news has come

	// What is known, and which watch has told it.
	known   store.Known
	changes uint64 // how often the leader that is known has changed
	last    uint64 // the highest revision of a leader that has been told
	source  uint64 // the number of the newest feed that has told a state
	feed    *feed  // the present watch; nil before the first has been set

	// The reads, by number: 1 is the first that begins. One is due while answered < wanted, or the feed is stale.
	begun    uint64    // the last that has begun
	answered uint64    // the last that was answered
	wanted   uint64    // the newest that is wanted, by callers or by resync
	present  time.Time // what is known has to be right as of then, for a caller that needs the present leader
	trouble  error     // of the last read, if it has no answer
	failure  *failure  // the last that failed for good; nil if none did
}

// failure is a read that failed for good.
type failure struct{ err error }

// feed is one watch of the leader. It is guarded by the observation's mu.
type feed struct {
	number  uint64    // of the read
	changes uint64    // the observation's when the read began
	sent    time.Time // before the request
	watch   Watch     // written when it has been set
	dated   bool      // it has told a state with an AsOf
	stale   bool      // it tells no more, did not tell what has changed, or told what may be older than what is known
}

// Observe implements store.Store. With prev nil, a read that begins from now on is awaited. A follower calls it for
// each confirmation, so it makes no context of its own.
func (e *Engine) Observe(ctx context.Context, election string, prev *store.Known) (store.Known, error) {
	if err := store.CheckElection(election); err != nil {
		return store.Known{}, err
	}
	o, err := e.join(ctx, election)
	if err != nil {
		return store.Known{}, e.life.Fail("read the leader", election, err)
	}
	defer e.leave(o)
	known, err := o.wait(ctx, prev)
	return known, e.life.Fail("read the leader", election, err)
}

// join begins a call of a user and returns the observation of the election, which the caller leaves.
func (e *Engine) join(ctx context.Context, election string) (*observation, error) {
	if err := e.begin(ctx); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	o, ok := e.observations[election]
	if !ok {
		o = &observation{engine: e, election: election, changed: make(chan struct{}), bell: make(chan struct{}, 1)}
		o.ctx, o.cancel = context.WithCancel(e.life.Calls)
		e.observations[election] = o
		e.life.Go(o.run)
	}
	o.callers++
	return o, nil
}

func (e *Engine) leave(o *observation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	o.callers--
	o.used = time.Now()
	e.calls.Done()
}

// wait waits for news to a caller that knows prev. Once the store is being closed, nothing counts as news: Close itself
// might have caused it.
func (o *observation) wait(ctx context.Context, prev *store.Known) (store.Known, error) {
	closed := o.engine.life.Calls
	o.mu.Lock()
	defer o.mu.Unlock()
	failure := o.failure
	need, called := uint64(1), time.Time{} // the read that has to be answered, and as of when
	switch {
	case prev == nil:
		need, called = o.begun+1, time.Now()
		o.present = called
	case o.known.AsOf.Before(prev.AsOf): // prev is of an observation that was dropped
		need = o.begun + 1
	}
	for {
		switch {
		case closed.Err() != nil:
			return store.Known{}, adapter.Ended(closed, nil, o.trouble)
		case o.failure != failure:
			return store.Known{}, o.failure.err
		case o.answered < need, o.known.AsOf.Before(called):
		case prev != nil && o.known.AsOf.Before(prev.AsOf):
		case prev != nil && o.known.Leader == prev.Leader && !o.known.AsOf.After(prev.AsOf):
		default:
			return o.known, nil
		}
		o.wanted = max(o.wanted, need)
		if o.lacking() {
			ring(o.bell)
		}
		if err := o.sleep(ctx); err != nil {
			return store.Known{}, err
		}
	}
}

// sleep waits until something has changed. The caller holds mu, which is unlocked meanwhile: ctx might be of the program's
// own type, and wait for another caller.
func (o *observation) sleep(ctx context.Context) error {
	changed := o.changed
	o.mu.Unlock()
	defer o.mu.Lock()
	select {
	case <-changed:
	case <-o.engine.life.Calls.Done(): // the store is being closed
	case <-ctx.Done():
	}
	if ctx.Err() == nil {
		return nil
	}
	o.mu.Lock()
	trouble := o.trouble
	o.mu.Unlock()
	return adapter.Ended(ctx, nil, cmp.Or(trouble, o.engine.gate.err()))
}

// lacking reports whether a read has to begin, if none is under way, or a confirmation. The caller holds mu.
func (o *observation) lacking() bool { return o.needsRead() || o.known.AsOf.Before(o.present) }

func (o *observation) needsRead() bool { return o.answered < o.wanted || o.feed != nil && o.feed.stale }

// now returns what is known.
func (o *observation) now() store.Known {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.known
}

// resync makes the observation read the leader again, unless a read is wanted or under way.
func (o *observation) resync() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.lacking() {
		o.wanted = o.begun + 1
		ring(o.bell)
	}
}

// run is the observation's goroutine: until the observation is dropped, or the store is closed.
func (o *observation) run() {
	inRota := o.engine.rota.join(o.resync)
	for o.ctx.Err() == nil {
		select {
		case <-o.bell:
			o.readAll()
		case <-o.ctx.Done():
		}
	}
	o.engine.rota.leave(inRota)
	o.feed.stop() // only this goroutine writes feed
}

// readAll reads the leader until no read is wanted. If the server that has answered might be behind, what it said is
// confirmed. After a request that was of no use it waits a little.
func (o *observation) readAll() {
	useful := true
	for wait := (adapter.Retries{}); o.ctx.Err() == nil; {
		o.mu.Lock()
		lacking, read := o.lacking(), o.needsRead()
		o.mu.Unlock()
		switch {
		case !lacking:
			return
		case !useful:
			wait.Pause(o.ctx)
			useful = true
		case read:
			f, err := o.read()
			if err != nil && !o.failed(err) {
				return
			}
			useful = err == nil && o.set(f)
		default:
			o.engine.confirmSoon()
			wait.PauseOr(o.ctx, o.bell)
		}
	}
}

// read reads the leader, and sets a watch. The read begins when the gate has let it through: callers that have come until
// then need no other.
func (o *observation) read() (f *feed, err error) {
	err = o.engine.gate.send(o.ctx, reads, func() (err error) {
		f = o.begin()
		f.watch, err = o.engine.driver.WatchLeader(o.ctx, o.election, o.tell(f))
		return err
	})
	return f, err
}

func (o *observation) begin() *feed {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begun++
	return &feed{number: o.begun, changes: o.changes, sent: time.Now()}
}

// set puts a watch that has been set in place of the one before, and reports whether the state that it told was taken.
func (o *observation) set(f *feed) bool {
	o.engine.worked.Store(true)
	o.mu.Lock()
	old := o.feed
	o.feed, o.trouble = f, nil
	taken := f.number == o.source
	if taken {
		o.answered = f.number
		if !f.dated {
			o.asOf(f.sent) // the read was sent later
		}
	}
	o.notify()
	o.mu.Unlock()
	old.stop() // after the new watch has been set: no change is missed
	return taken
}

// failed is called when a read has failed, and reports whether it must be sent again.
func (o *observation) failed(err error) (again bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if adapter.Uncertain(err) {
		o.trouble = err
		return true
	}
	o.failure = &failure{err}
	o.wanted, o.present = o.answered, time.Time{} // callers that wait return the error; the next caller reads again
	o.notify()
	return false
}

// tell returns the Tell of a watch of the leader. It ignores the watch once a newer one has told a state.
func (o *observation) tell(f *feed) Tell {
	return func(n News) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if f.number < o.source || f.stale {
			return
		}
		switch {
		case n.State != nil && o.mayBeOlder(f, n.State):
			f.stale = true
		case n.State != nil:
			if n.State.Leader != o.known.Leader {
				o.changes++
			}
			o.source, o.known.Leader = f.number, n.State.Leader
			o.last = max(o.last, n.State.Leader.Revision)
			f.dated = f.dated || !n.AsOf.IsZero()
			o.asOf(n.AsOf)
		case n.AsOf.IsZero():
			f.stale = true
		case f.number == o.source: // before that, what is known was told by another watch
			o.asOf(n.AsOf)
		}
		f.stale = f.stale || n.Over
		if f.stale {
			ring(o.bell)
		}
		o.notify()
	}
}

// mayBeOlder reports whether a state might be older than what is known: another watch has told of a change since the read
// began, and the leader is one of before that. The caller holds mu.
func (o *observation) mayBeOlder(f *feed, s *State) bool {
	overtaken := f.number != o.source && f.changes != o.changes && s.Leader != o.known.Leader
	return overtaken && 0 < s.Leader.Revision && s.Leader.Revision <= o.last
}

// stop takes the watch back.
func (f *feed) stop() {
	if f != nil {
		f.watch.Stop()
	}
}

// asOf advances the time as of which what is known is right. The caller holds mu.
func (o *observation) asOf(t time.Time) {
	if t.After(o.known.AsOf) {
		o.known.AsOf = t
	}
}

// notify wakes all who wait. The caller holds mu.
func (o *observation) notify() {
	close(o.changed)
	o.changed = make(chan struct{})
}
