package consul

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// How keys are watched.
//
// A blocking query holds a connection, and an agent takes 200 of them from an address, of all processes together. One
// that is given up goes on counting there until its wait is over, since the agent does not notice before. So a store
// has a limited number of places for queries, and a place is given back when the agent has let go of it. A query's
// wait begins short, the longer the more there are, so that many don't ask more often than few, and doubles as the
// watch lasts: short watches leave nothing for long, long ones ask rarely.
//
// Keys beyond those places are watched together, by one query for any change below the prefix; what it was is found
// out by transactions of up to 128 checks each. See overlook.
//
// And all are looked at in turn, one transaction at each renewal, see look: a query that has gone silent, or that the
// servers' indexes have been set back under, is found out by that.
const (
	places    = 64
	firstWait = 5 * time.Second // of one of few queries
	eachWait  = 4 * time.Second // for each query that runs, at least
	mostWait  = 5 * time.Minute
)

// held returns for how long an agent may hold on to a query that was given up: it adds up to a 16th to the wait.
func held(wait time.Duration) time.Duration { return wait + wait/16 + time.Second }

// linger is how long a watch goes on after its last user has left: there often is a next one.
const linger = 100 * time.Millisecond

// watches are the keys that a store watches.
type watches struct {
	mu      sync.Mutex
	byKey   map[string]*watch // guarded by mu, as are all below
	turns   list.List         // of *watch: the next to be looked at first
	queries int               // that run on places of their own
	held    []time.Time       // when places come free that the agent holds on to
	shared  int               // watches without a place
	over    bool              // overlook runs
	changed chan struct{}     // has room for one: there are more or fewer of those
}

// watch is a key with its latest known state.
type watch struct {
	store *Store
	key   string
	ack   bool // users rely on it for Confirmed

	// Guarded by the watches' mu.
	refs     int
	known    bool
	state    entry
	index    uint64        // of the state, for the next query; at least 1
	version  uint64        // counts states
	changed  chan struct{} // closed and replaced with each state
	err      error         // why it can't be read, as far as is known; the next read may clear it
	verified time.Time     // when the last read was sent that told the state of that time
	turn     *list.Element
	cancel   context.CancelFunc // of the query on a place of its own; nil if there is none
	idle     *time.Timer        // runs while nothing uses it

	sharing   bool // it is left to overlook
	unchecked bool // which has not looked at it yet
	overdue   bool // a look found what the query has not told yet
}

// view is what a user sees of a watch.
type view struct {
	entry
	known   bool
	err     error
	changed <-chan struct{}
}

// watch joins the watch of a key. If the caller has seen it already, it says what it was, at which index.
func (s *Store) watch(key string, ack bool, seen *entry, index uint64) *watch {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	w := s.watches.byKey[key]
	if w != nil && w.err != nil && w.refs == 0 {
		w.remove()
		w = nil
	}
	if w == nil {
		w = &watch{store: s, key: key, ack: ack, index: max(1, index), changed: make(chan struct{})}
		if seen != nil {
			w.known, w.state = true, *seen
		}
		s.watches.byKey[key] = w
		w.turn = s.watches.turns.PushBack(w)
		if w.known {
			w.place()
		}
	}
	w.refs++
	if w.idle != nil {
		w.idle.Stop()
		w.idle = nil
	}
	return w
}

// leave leaves the watch. If nothing else uses it, it goes on for a moment.
func (w *watch) leave() {
	all := &w.store.watches
	all.mu.Lock()
	defer all.mu.Unlock()
	if w.refs--; w.refs > 0 {
		return
	}
	if w.known && !w.state.exists && !w.ack {
		w.remove()
		return
	}
	w.idle = time.AfterFunc(linger, func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		if w.refs == 0 && all.byKey[w.key] == w {
			w.remove()
		}
	})
}

// remove ends the watch. The caller holds mu.
func (w *watch) remove() {
	all := &w.store.watches
	delete(all.byKey, w.key)
	all.turns.Remove(w.turn)
	if w.cancel != nil {
		w.cancel()
	}
	w.unshare()
	if w.idle != nil {
		w.idle.Stop()
	}
}

// removed reports whether the watch has ended. The caller holds mu.
func (w *watch) removed() bool { return w.store.watches.byKey[w.key] != w }

// see returns the present state.
func (w *watch) see() view {
	w.store.watches.mu.Lock()
	defer w.store.watches.mu.Unlock()
	return view{w.state, w.known, w.err, w.changed}
}

// accept takes note of a state that was read when the watch had the given version. It reports false if another one
// has been noted since.
func (w *watch) accept(version uint64, e entry, index uint64, sent time.Time) bool {
	all := &w.store.watches
	all.mu.Lock()
	defer all.mu.Unlock()
	if w.version != version {
		return false
	}
	w.index = max(1, index)
	if !sent.IsZero() {
		w.verified = sent
	}
	if w.known && w.state == e && w.err == nil {
		return true
	}
	w.version++
	w.state, w.known, w.err = e, true, nil
	close(w.changed)
	w.changed = make(chan struct{})
	return true
}

// deny says that the key can't be read.
func (w *watch) deny(err error) {
	all := &w.store.watches
	all.mu.Lock()
	defer all.mu.Unlock()
	w.err = err
	close(w.changed)
	w.changed = make(chan struct{})
}

// refresh reads the key as it is now.
func (w *watch) refresh(ctx context.Context) error {
	all := &w.store.watches
	all.mu.Lock()
	version := w.version
	all.mu.Unlock()
	type answer struct {
		entry
		index uint64
	}
	sent := time.Now()
	a, err := request(ctx, w.store, func(ctx context.Context) (answer, error) {
		p, meta, err := w.store.client.KV().Get(w.key, w.store.consistent(ctx))
		if err = agents(meta, err); err != nil {
			return answer{}, err
		}
		return answer{entryOf(p), meta.LastIndex}, nil
	})
	if err != nil {
		return err
	}
	w.accept(version, a.entry, a.index, sent)
	all.mu.Lock()
	defer all.mu.Unlock()
	if !w.removed() && w.cancel == nil && !w.sharing && (w.ack || w.state.exists) {
		w.place()
	}
	return nil
}

// settle waits a little for queries that end by themselves, now that this store's keys are gone.
func (all *watches) settle(ctx context.Context) {
	for range 20 {
		left := 0
		all.mu.Lock()
		for key, w := range all.byKey {
			if id, ok := owner(key); ok && w.cancel != nil && w.state.exists && w.state.session == id {
				left++
			}
		}
		all.mu.Unlock()
		if left == 0 {
			return
		}
		adapter.PauseFor(ctx, 5*time.Millisecond)
	}
}

// close stops the timers of the watches that are left.
func (all *watches) close() {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, w := range all.byKey {
		if w.idle != nil {
			w.idle.Stop()
		}
	}
}

// settled reports whether no Leader call depends on what is watched, or still has to look at it.
func (s *Store) settled() bool {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	for _, w := range s.watches.byKey {
		if w.ack && w.refs > 0 {
			return false
		}
	}
	return s.polls.Settled()
}

var _ store.Store = (*Store)(nil)
