package drivertest

import (
	"sync"

	"github.com/go-leadership/leadership/store/engine"
)

// news is what one watch has told.
type news struct {
	mu   sync.Mutex
	list []engine.News
	log  func(engine.News) // nil, or told of each
}

func (n *news) tell(one engine.News) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, one)
	if n.log != nil {
		n.log(one)
	}
}

func (n *news) all() []engine.News {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]engine.News{}, n.list...)
}

// state returns the last state, if there is one.
func (n *news) state() (s engine.State, told bool) {
	for _, one := range n.all() {
		if one.State != nil {
			s, told = *one.State, true
		}
	}
	return s, told
}

// stale reports whether the watch has said that it has to be set and read anew.
func (n *news) stale() bool {
	for _, one := range n.all() {
		if one.Over || one.State == nil && one.AsOf.IsZero() {
			return true
		}
	}
	return false
}

// entry watches an entry.
func (e *env) entry(d engine.Driver, key string) (*news, engine.Watch) {
	e.Helper()
	n, w := e.watch("watch an entry", func(tell engine.Tell) (engine.Watch, error) { return d.WatchEntry(e.ctx, key, tell) })
	e.onClose(w.Stop)
	return n, w
}

// leader watches the leader.
func (e *env) leader(d engine.Driver) *news {
	e.Helper()
	n, w := e.watch("watch the leader", func(tell engine.Tell) (engine.Watch, error) { return d.WatchLeader(e.ctx, e.election, tell) })
	e.onClose(w.Stop)
	return n
}

// watch begins to watch, again if the service could not be reached.
func (e *env) watch(what string, begin func(engine.Tell) (engine.Watch, error)) (n *news, w engine.Watch) {
	e.Helper()
	e.finally(what, func() (err error) {
		n = &news{} // what a watch tells that could not begin is not taken for what the next one tells
		w, err = begin(n.tell)
		return err
	})
	return n, w
}

// gone follows an entry until it is told to be gone, with as many watches as that takes.
func (e *env) gone(d engine.Driver, key string) {
	e.Helper()
	n, _ := e.entry(d, key)
	e.until("the end of the entry is told", func() bool {
		if n.stale() {
			n, _ = e.entry(d, key)
		}
		s, told := n.state()
		return told && s.Token == 0
	})
}
