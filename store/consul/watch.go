package consul

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/hashicorp/consul/api"
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

// watches are the keys that a driver watches.
type watches struct {
	mu      sync.Mutex
	byKey   map[string]*watch          // guarded by mu, as are all below
	turns   list.List                  // of *watch: the next to be looked at first
	queries int                        // that run on places of their own
	held    []time.Time                // when places come free that the agent holds on to
	shared  int                        // watches without a place
	over    bool                       // overlook runs
	changed chan struct{}              // has room for one: there are more or fewer of those
	listed  map[string]map[string]seed // by election and key: what casts have listed
}

// seed is an entry that was read, at an index of the service.
type seed struct {
	entry
	index uint64
}

// watch is a key with its latest known state.
type watch struct {
	driver   *driver
	key      string
	election string // whose ballot the key is; empty if it is that of an acknowledgement
	ack      bool

	// Guarded by the watches' mu.
	subs    map[*sub]struct{}
	known   bool
	state   entry
	index   uint64 // of the state, for the next query; at least 1
	version uint64 // counts states
	turn    *list.Element
	cancel  context.CancelFunc // of the query on a place of its own; nil if there is none
	idle    *time.Timer        // runs while nothing uses it

	sharing   bool // it is left to overlook
	unchecked bool // which has not looked at it yet
	overdue   bool // a look found what the query has not told yet
}

// sub is a watch of the engine. It is told under the watches' mu: so one at a time, and in the order of the states.
type sub struct{ tell engine.Tell }

// subscribe watches a key for the engine. It returns when a read has been told that was sent after the call, or what a
// cast has listed if the engine can't have learned of anything since.
func (d *driver) subscribe(ctx context.Context, key string, ack bool, tell engine.Tell) (engine.Watch, error) {
	s := &sub{tell}
	w, told := d.join(key, ack, s)
	stop := func() { w.leave(s) }
	for !told {
		var err error
		if told, err = w.refresh(ctx); err != nil {
			stop()
			return engine.Watch{}, err
		}
	}
	return engine.Watch{Stop: stop}, nil
}

// join adds a subscriber to the watch of a key, and reports whether it has been told what a cast has listed.
func (d *driver) join(key string, ack bool, s *sub) (w *watch, told bool) {
	all := &d.watches
	all.mu.Lock()
	defer all.mu.Unlock()
	w = all.byKey[key]
	isNew := w == nil
	if isNew {
		w = &watch{driver: d, key: key, ack: ack, index: 1, subs: map[*sub]struct{}{}}
		if !ack {
			w.election = d.layout.electionOf(key)
		}
		all.byKey[key] = w
		w.turn = all.turns.PushBack(w)
	}
	w.subs[s] = struct{}{}
	if w.idle != nil {
		w.idle.Stop()
		w.idle = nil
	}
	listed, ok := all.take(w.election, key)
	switch {
	case !ok || !isNew && (!w.known || w.state != listed.entry):
		if !ack {
			all.unlist(w.election)
		}
		return w, false
	case isNew:
		w.known, w.state, w.index = true, listed.entry, max(1, listed.index)
		w.place()
	}
	s.tell(engine.News{State: w.news(time.Time{})})
	return w, true
}

// list keeps what the answer to a cast has listed, until the engine watches it, or may have learned something newer of
// the election's ballots: from then on a read has to tell what they are. So a ballot costs no reads besides the cast.
func (all *watches) list(election string, listed map[string]seed) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.listed[election] = listed
}

// take returns what was listed of a ballot, and forgets it. The caller holds mu.
func (all *watches) take(election, key string) (s seed, ok bool) {
	listed := all.listed[election]
	s, ok = listed[key]
	s.value = "" // of no use
	if delete(listed, key); len(listed) == 0 {
		all.unlist(election)
	}
	return s, ok
}

// unlist forgets what was listed. The caller holds mu.
func (all *watches) unlist(election string) { delete(all.listed, election) }

// forget is unlist.
func (all *watches) forget(election string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.unlist(election)
}

// news is the state for the engine. The caller holds mu.
func (w *watch) news(asOf time.Time) *engine.State {
	if w.ack {
		return &engine.State{Leader: leaderOf(w.state), AsOf: asOf}
	}
	id, _ := owner(w.key)
	st := &engine.State{Session: id, AsOf: asOf}
	if stands(w.key, w.state) {
		st.Token, st.Nonce, st.Resign = w.state.create, nonceOf(w.key), w.state.flags&isCalled != 0
	}
	return st
}

// leaderOf returns the leader that an entry tells of. A key without a lock was written by a program that does not stand.
func leaderOf(e entry) store.Leader {
	if e.session == "" {
		return store.Leader{}
	}
	return store.Leader{Value: e.value, Revision: e.modify}
}

// tell tells all subscribers. The caller holds mu.
func (w *watch) tell(n engine.News) {
	for s := range w.subs {
		s.tell(n)
	}
}

// leave takes a subscriber away. Without any, the watch goes on for a moment.
func (w *watch) leave(s *sub) {
	all := &w.driver.watches
	all.mu.Lock()
	defer all.mu.Unlock()
	if _, ok := w.subs[s]; !ok {
		return
	}
	delete(w.subs, s)
	if len(w.subs) > 0 || w.removed() {
		return
	}
	if !w.known || !w.state.exists && !w.ack {
		w.remove()
		return
	}
	w.idle = time.AfterFunc(linger, func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		if len(w.subs) == 0 && !w.removed() {
			w.remove()
		}
	})
}

// remove ends the watch. The caller holds mu.
func (w *watch) remove() {
	all := &w.driver.watches
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
func (w *watch) removed() bool { return w.driver.watches.byKey[w.key] != w }

// accept takes note of a state that was read when the watch had the given version. It reports false if another one
// has been noted since. A consistent read says when it was sent, and so as of when the state is right.
func (w *watch) accept(version uint64, e entry, index uint64, sent time.Time) bool {
	all := &w.driver.watches
	all.mu.Lock()
	defer all.mu.Unlock()
	if w.version != version {
		return false
	}
	if !w.ack {
		e.value = "" // of no use
	}
	w.index = max(1, index)
	if w.known && w.state == e {
		if !sent.IsZero() { // those who came since the last state do not know it
			w.tell(engine.News{State: w.news(sent)})
			w.absent()
		}
		return true
	}
	w.version++
	w.state, w.known = e, true
	if !w.ack {
		all.unlist(w.election)
		w.released()
	}
	w.tell(engine.News{State: w.news(sent)})
	return true
}

// absent is called when a state has been found to be right. A key that does not exist may have existed since it was found
// not to before: what was read then may come later, and is not believed any more. The caller holds mu.
func (w *watch) absent() {
	if !w.state.exists {
		w.version++
	}
}

// released removes a key of this store's whose lock another program has taken: it is no ballot any more. The caller holds
// mu.
func (w *watch) released() {
	d, e := w.driver, w.state
	id, _ := owner(w.key)
	if !e.exists || stands(w.key, e) || !d.isSession(id) {
		return
	}
	d.life.Go(func() {
		_, _ = d.commit(d.life.Background,
			&api.KVTxnOp{Verb: api.KVCheckIndex, Key: w.key, Index: e.modify}, &api.KVTxnOp{Verb: api.KVDelete, Key: w.key},
		)
	})
}

// deny ends a watch whose key can't be read: its subscribers read it again, and are told why not.
func (w *watch) deny() {
	all := &w.driver.watches
	all.mu.Lock()
	defer all.mu.Unlock()
	if !w.removed() {
		w.remove()
		w.tell(engine.News{Over: true})
	}
}

// refresh reads the key as it is now, and reports whether all subscribers have been told of that.
func (w *watch) refresh(ctx context.Context) (told bool, err error) {
	d, all := w.driver, &w.driver.watches
	all.mu.Lock()
	version := w.version
	all.mu.Unlock()
	sent := time.Now()
	a, err := d.get(ctx, w.key)
	if err != nil {
		return false, err
	}
	told = w.accept(version, a.entry, a.index, sent)
	all.mu.Lock()
	defer all.mu.Unlock()
	if !w.removed() && w.cancel == nil && !w.sharing && (w.ack || w.state.exists) {
		w.place()
	}
	return told, nil
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
