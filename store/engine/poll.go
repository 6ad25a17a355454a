package engine

import (
	"context"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// poll is what is known of an election's leader, for all callers. It watches from the first call on, and is dropped
// when it has not been used for a TTL.
//
// It reads the leader when it begins, when its watch is over or does not tell what has changed, when the confirmations
// are missing, after an answer that took longer than a pace, and for a caller that needs the present state. Reads are
// numbered, so that such a caller gets the answer of one that began after the call. That one is as of the present, with a
// driver whose reads may be behind too: see Syncer.
type poll struct {
	engine   *Engine
	election string
	item     item
	callers  int       // guarded by the engine's mu, as are used and looked
	used     time.Time // when the last caller left
	looked   uint64

	mu       sync.Mutex
	known    store.Known   // guarded by mu, as are all below
	changed  chan struct{} // closed and replaced when something has changed
	feed     *feed         // the watch; nil before the first has been set
	told     uint64        // the newest feed that has told a state
	changes  uint64        // how often the leader that is known has changed
	last     uint64        // the highest revision of a leader that has been told
	begun    uint64        // reads that have begun
	reading  bool          // one is under way
	answered uint64        // the last read that was answered
	wanted   uint64        // the read that callers wait for
	present  uint64        // the newest one that has to be as of the present
	trouble  error         // of the last read, if it has no answer
	failures int           // reads that failed for good
	err      error         // of the last one
	floor    uint64        // the revision of an acknowledgement of this store that has not been told yet; or 0
	cleared  uint64        // the read that began after that acknowledgement
	dropped  bool
}

// feed is one watch of the leader. It is guarded by the poll's mu.
type feed struct {
	number  uint64 // of the read
	changes uint64 // the poll's when the read began
	watch   Watch  // written when it has been set
	synced  bool   // the read is as of the present
	dated   bool   // it has told a state with its AsOf
	stale   bool   // it tells no more, or did not tell what has changed
	older   bool   // its state was not taken, since it may be older than what is known
}

// Observe implements store.Store. With prev nil, a read that begins from now on is awaited. A follower calls it for each
// confirmation, so it makes no context of its own.
func (e *Engine) Observe(ctx context.Context, election string, prev *store.Known) (store.Known, error) {
	if err := store.CheckElection(election); err != nil {
		return store.Known{}, err
	}
	p, err := e.join(ctx, election)
	if err == nil {
		defer e.leave(p)
		var k store.Known
		// If the store is closed meanwhile, what was told might only be what Close itself does.
		if k, err = p.wait(ctx, prev); err == nil && e.life.Calls.Err() == nil {
			return k, nil
		}
	}
	if err == nil {
		err = store.ErrClosed
	}
	return store.Known{}, e.life.Fail("read the leader", election, err)
}

// join begins a call of a user and returns the poll of the election, which the caller leaves.
func (e *Engine) join(ctx context.Context, election string) (*poll, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.ended:
		return nil, store.ErrClosed
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	p, ok := e.polls[election]
	if !ok {
		p = &poll{engine: e, election: election, changed: make(chan struct{})}
		p.item.work = p.work
		e.polls[election] = p
	}
	p.callers++
	e.calls.Add(1)
	return p, nil
}

func (e *Engine) leave(p *poll) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p.callers--
	p.used = time.Now()
	e.calls.Done()
}

// notOlder makes the poll of an election, if there is one, show nothing that is older than an acknowledgement which this
// store has made: its caller knows of that already.
func (e *Engine) notOlder(election string, revision uint64) {
	e.mu.Lock()
	p := e.polls[election]
	e.mu.Unlock()
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known.Leader.Revision < revision {
		p.floor, p.cleared = revision, p.begun+1
	}
}

// wait waits for news to one who knows prev.
func (p *poll) wait(ctx context.Context, prev *store.Known) (store.Known, error) {
	closed := p.engine.life.Calls
	p.mu.Lock()
	defer p.mu.Unlock()
	failures := p.failures
	need := uint64(1) // the read that has to be answered
	if prev == nil {
		need = p.begun + 1
		p.present = need
	}
	for {
		switch {
		case p.failures > failures:
			return store.Known{}, p.err
		case p.answered < need:
		case prev != nil && p.known.Leader == prev.Leader && !p.known.AsOf.After(prev.AsOf):
		case p.floor == 0:
			return p.known, nil
		default: // it is news to the caller, and might be older than the acknowledgement
			need = p.cleared
		}
		p.wanted = max(p.wanted, need)
		if p.lacking() {
			p.engine.queue.add(&p.item)
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		case <-closed.Done():
		}
		p.mu.Lock()
		for _, over := range []context.Context{ctx, closed} {
			if over.Err() != nil {
				return store.Known{}, adapter.Ended(over, nil, p.trouble)
			}
		}
	}
}

// lacking reports whether a read has to begin, if none is under way.
func (p *poll) lacking() bool { return p.answered < p.wanted || p.feed != nil && p.feed.stale }

// now returns what is known.
func (p *poll) now() store.Known {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known
}

// refresh makes a worker read the leader again, unless a read is under way.
func (p *poll) refresh() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reading {
		p.wanted = max(p.wanted, p.begun+1)
		p.engine.queue.add(&p.item)
	}
}

// drop ends the poll: it has no callers any more.
func (p *poll) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropped = true
	p.engine.queue.add(&p.item)
}

// work reads the leader, if that is wanted, and sets a watch. A worker calls it, one at a time for each poll.
func (p *poll) work() (again bool) {
	f := p.begin()
	if f == nil {
		return false
	}
	ctx, asked := p.engine.life.Calls, time.Now()
	watch, err := p.read(ctx, f)
	if err != nil {
		if !p.failed(err) || ctx.Err() != nil {
			return false
		}
		wait := backoff{}
		wait.pause(ctx)
		return true
	}
	p.mu.Lock()
	old := p.feed
	p.engine.worked.Store(true)
	f.watch, p.feed, p.reading, p.trouble = watch, f, false, nil
	if !f.older {
		p.answered = f.number
	}
	if f.number == p.told && !f.dated {
		p.asOf(asked) // the read was sent later
	}
	if p.answered >= p.cleared {
		p.floor = 0
	}
	pace := p.engine.settings.Pace
	slow := time.Since(asked) > pace && time.Since(p.known.AsOf) > pace // the answer says little of now
	if slow {
		p.wanted = max(p.wanted, p.begun+1)
	}
	p.notify()
	p.mu.Unlock()
	old.stop() // after the new watch has been set: no change is missed
	return slow
}

// read reads the leader, and sets a watch.
func (p *poll) read(ctx context.Context, f *feed) (Watch, error) {
	if d, ok := p.engine.driver.(Syncer); ok && f.synced {
		if err := d.Sync(ctx); err != nil {
			return Watch{}, err
		}
	}
	return p.engine.driver.Leader(ctx, p.election, p.tell(f))
}

// begin begins a read, and returns nil if none is wanted. It takes the watch of a poll that was dropped back.
func (p *poll) begin() *feed {
	p.mu.Lock()
	if p.dropped {
		old := p.feed
		p.feed = nil
		p.mu.Unlock()
		old.stop()
		return nil
	}
	defer p.mu.Unlock()
	if !p.lacking() {
		return nil
	}
	p.begun++
	p.reading = true
	return &feed{number: p.begun, changes: p.changes, synced: p.answered < p.present}
}

// failed is called when a read has failed, and reports whether it must be sent again.
func (p *poll) failed(err error) (again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reading = false
	if adapter.Uncertain(err) {
		p.trouble = err
		return true
	}
	p.failures, p.err = p.failures+1, err
	p.wanted = p.answered // those who wait are told; the next caller reads again
	p.notify()
	return false
}

// tell returns what a watch of the leader calls. Once the watch after it has told a state, it is not listened to.
func (p *poll) tell(f *feed) Tell {
	return func(n News) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if f.number < p.told || f.stale {
			return
		}
		switch {
		case n.State != nil && p.mayBeOlder(f, n.State):
			f.stale, f.older = true, true
		case n.State != nil:
			if n.State.Leader != p.known.Leader {
				p.changes++
			}
			p.told, p.known.Leader = f.number, n.State.Leader
			p.last = max(p.last, n.State.Leader.Revision)
			f.dated = f.dated || !n.State.AsOf.IsZero()
			p.asOf(n.State.AsOf)
			if p.known.Leader.Revision >= p.floor {
				p.floor = 0
			}
		case n.AsOf.IsZero():
			f.stale = true
		case f.number == p.told && !f.stale: // before that, what is known was told by another watch
			p.asOf(n.AsOf)
		}
		f.stale = f.stale || n.Over
		if f.stale {
			p.engine.queue.add(&p.item)
		}
		p.notify()
	}
}

// mayBeOlder reports whether a state might be older than what is known: it was read before the time as of which that is
// known to be right, or another watch has told of a change since the read began, and the leader is one of before that.
// The caller holds mu.
func (p *poll) mayBeOlder(f *feed, s *State) bool {
	if s.Leader == p.known.Leader {
		return false
	}
	overtaken := f.number != p.told && f.changes != p.changes
	return overtaken && 0 < s.Leader.Revision && s.Leader.Revision <= p.last || !s.AsOf.IsZero() && s.AsOf.Before(p.known.AsOf)
}

// stop takes the watch back.
func (f *feed) stop() {
	if f != nil {
		f.watch.Stop()
	}
}

// asOf notes as of when what is known is right. The caller holds mu.
func (p *poll) asOf(t time.Time) {
	if t.After(p.known.AsOf) {
		p.known.AsOf = t
	}
}

// notify wakes all who wait. The caller holds mu.
func (p *poll) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}
