package memory

import (
	"context"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store/engine"
)

// watch is a watch that a store has set on a key.
type watch struct {
	key       string
	line      *line
	tell      engine.Tell
	delivered *delivered // written when it is set for the first time
	mute      bool       // the watch reports nothing any more; guarded by the service's mutex

	known bool   // the watch has reported a state; guarded by the mutex of delivered, as is index
	index uint64 // of the state that it has reported
}

// delivered is what the watches of one line on one key have reported last: that never goes back.
type delivered struct {
	mu    sync.Mutex // held while tell is called
	index uint64     // guarded by mu, as is state
	state engine.State
}

// line carries what the service tells a store, in the order in which it happened, unless it is unordered.
type line struct {
	kind    Watches // constant
	faults  *Faults
	wake    chan struct{}       // has room for one
	watches map[*watch]struct{} // guarded by the service's mutex
	tasks   sync.WaitGroup      // the goroutine of run, and those that deliver out of order, which it starts

	mu     sync.Mutex
	events []event // guarded by mu
}

// event is a change of a key, or, if it has no watch, the confirmation that all before it has been told.
type event struct {
	at    time.Time
	watch *watch
	state engine.State
	index uint64 // of the service when the state was so

	asOf    time.Time
	watches []*watch // that are confirmed

	over bool // the watch tells no more
}

// leaderKey is the key by which the acknowledgement of an election is watched. No entry has it.
func leaderKey(election string) string { return "\x00" + election }

// state returns what is at a key.
func (s *Service) state(key string) engine.State {
	if b, ok := s.entries[key]; ok {
		return engine.State{
			Token: b.token, Session: sessionName(b.session.id), Nonce: b.nonce, Resign: b.resign, First: b.led,
		}
	}
	if key[0] == 0 {
		if e, ok := s.elections[key[1:]]; ok {
			return engine.State{Leader: e.leader}
		}
	}
	return engine.State{}
}

// changed tells those who watch a key of its state.
func (s *Service) changed(key string) {
	for w := range s.watches[key] {
		if w.mute {
			continue
		}
		e := event{at: time.Now(), watch: w, state: s.state(key), index: s.index}
		switch w.line.kind {
		case OneShot:
			s.unset(w)
		case Unordered:
			e.at = e.at.Add(time.Duration(e.index*7919%97) * time.Millisecond) // any order, the same in each run
		}
		w.line.push(e)
	}
}

// watch sets a watch and returns what is at its key now.
func (s *Service) watch(w *watch) event {
	if s.watches == nil {
		s.watches = map[string]map[*watch]struct{}{}
	}
	if s.watches[w.key] == nil {
		s.watches[w.key] = map[*watch]struct{}{}
	}
	if w.delivered == nil { // a request that is carried out twice comes here again, while the line may be reading delivered
		w.delivered = s.delivered(w)
	}
	s.watches[w.key][w] = struct{}{}
	w.line.watches[w] = struct{}{}
	return event{state: s.state(w.key), index: s.index}
}

// delivered returns what the other watches of w's line on its key have told.
func (s *Service) delivered(w *watch) *delivered {
	for other := range s.watches[w.key] {
		if other.line == w.line {
			return other.delivered
		}
	}
	return &delivered{}
}

// unset cancels a watch, if it was set.
func (s *Service) unset(w *watch) {
	delete(w.line.watches, w)
	delete(s.watches[w.key], w)
	if len(s.watches[w.key]) == 0 {
		delete(s.watches, w.key)
	}
}

// mute makes the watches of a line that are set silent.
func (s *Service) mute(l *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range l.watches {
		w.mute = true
	}
}

// hangUp ends all watches of a line, without what they have not told.
func (s *Service) hangUp(l *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.mu.Lock()
	l.events = nil
	l.mu.Unlock()
	for w := range l.watches {
		s.unset(w)
		l.push(event{at: time.Now(), watch: w, over: true})
	}
}

// confirm sends a line, after everything that has happened, the confirmation that it has been reported.
func (s *Service) confirm(l *line, asOf time.Time) {
	if l.kind == Unordered {
		return
	}
	e := event{at: time.Now(), asOf: asOf}
	for w := range l.watches {
		if !w.mute {
			e.watches = append(e.watches, w)
		}
	}
	l.push(e)
}

func (l *line) push(e event) {
	l.mu.Lock()
	l.events = append(l.events, e)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// take returns the next event, if there is one.
func (l *line) take() (e event, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.events) == 0 {
		return event{}, false
	}
	e, l.events = l.events[0], l.events[1:]
	return e, true
}

// latest returns the latest state of a leader that has arrived by now. Those of entries keep their order.
func (l *line) latest(e event) event {
	if e.watch.key[0] != 0 {
		return e
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.events {
		if o.watch == e.watch && l.faults.Line.Arrived(o.at) {
			e = o
		}
	}
	return e
}

// run delivers events until ctx ends.
func (l *line) run(ctx context.Context) {
	for {
		for e, ok := l.take(); ok; e, ok = l.take() {
			if l.kind == Unordered {
				l.tasks.Go(func() { l.deliver(ctx, e) })
			} else {
				l.deliver(ctx, e)
			}
		}
		select {
		case <-l.wake:
		case <-ctx.Done():
			return
		}
	}
}

// deliver delivers an event when it arrives.
func (l *line) deliver(ctx context.Context, e event) {
	if l.faults.Line.Await(ctx, e.at) != nil {
		return
	}
	for again := l.faults.double.Load(); ; again = false {
		switch {
		case e.watch == nil:
		case e.over:
			e.watch.fire()
		case l.kind == OneShot:
			e.watch.fire()
		default:
			e.watch.deliver(l.latest(e))
		}
		for _, w := range e.watches {
			w.confirmed(e.asOf)
		}
		if !again {
			return
		}
	}
}

// fire reports that something has changed, and nothing more.
func (w *watch) fire() {
	w.delivered.mu.Lock()
	defer w.delivered.mu.Unlock()
	w.tell(engine.News{Over: true})
}

// deliver reports a state, or a later state that another watch has reported.
func (w *watch) deliver(e event) {
	t := w.delivered
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.index >= t.index {
		t.index, t.state = e.index, e.state
	}
	if w.known && t.index <= w.index && !w.line.faults.double.Load() { // the watch has reported that before
		return
	}
	w.known, w.index = true, t.index
	state := t.state
	w.tell(engine.News{State: &state})
}

func (w *watch) confirmed(asOf time.Time) {
	w.delivered.mu.Lock()
	defer w.delivered.mu.Unlock()
	w.tell(engine.News{AsOf: asOf})
}
