package zookeeper

import (
	"context"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-zookeeper/zk"
)

// watches are the one-shot watches that are set. All watches of the engine on one node share one: the library keeps a
// channel for every call that sets a watch until it fires, and can't take one back.
//
// A watch of the engine tells the state that it began with, and then that the node has changed, and no more. It is over
// at each reconnection too. The library sets its own watches again then, so what is set anew on the same node shares it.
//
// It sends SetWatches for that, several if they are many, each when the one before has been answered; none if there are
// no watches. The wire reads which watches are in which, since each has an xid of its own and not the protocol's -8. The
// server compares every node with the last zxid in the request and sends an event if it has changed, else sets the watch,
// and then answers. So once the answer has been read, every change from before has been told, and every later one will
// be. Only then, and when the read that sets it has been answered, does the server have a watch. On a caller's
// connection there is no wire, and so no answer is seen: see keeper.tell.
type watches struct {
	mu    sync.Mutex
	set   map[watchKey]*watch // guarded by mu, as is epoch
	epoch uint64              // counts connections; 0 on a caller's, which does not tell

	relay func(*watch, <-chan struct{}) // starts to relay a watch of a caller's connection; constant
}

// watchKey tells the watch on a node that exists from that on one that does not yet.
type watchKey struct {
	path   string
	absent bool
}

// watch is the next change of a node, as the library tells it.
type watch struct {
	path     string          // constant
	ready    chan struct{}   // closed when it is known whether the watch could be set
	failed   bool            // written before ready is closed, as is events
	events   <-chan zk.Event // the library's channel, on a caller's connection
	confirms chan time.Time  // to relay; has room for one

	epoch   uint64        // guarded by the mutex of watches, as are all below: the last connection on which the server has it
	again   time.Time     // when the server said that it has set it again; zero if it was set by a read on that connection
	quit    chan struct{} // ends relay; nil while that does not run
	fired   bool
	deleted bool                  // the change was the node's end
	fresh   *node                 // what was read when it was set; nil once that was used, and after a reconnection
	tells   map[*engine.Tell]bool // whether a deletion is the end: of an entry, which never comes back
}

// event is the library's callback: it runs between two messages from the server, in their order, so that the watch of
// an earlier change always fires first. It must not block or use the connection.
func (w *watches) event(e zk.Event) {
	if e.Type == zk.EventSession {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range []watchKey{{e.Path, false}, {e.Path, true}} {
		if entry, ok := w.set[key]; ok {
			w.fire(key, entry, e)
		}
	}
}

// fire notes that a watch has fired. The caller holds mu.
func (w *watches) fire(key watchKey, entry *watch, e zk.Event) {
	delete(w.set, key)
	entry.fired, entry.deleted = true, e.Type == zk.EventNodeDeleted
	entry.over()
}

// over ends the engine's watches. The caller holds the mutex of watches.
func (w *watch) over() {
	for tell, unique := range w.tells {
		(*tell)(w.end(unique))
	}
	clear(w.tells)
	w.rest()
}

// rest ends relay: nothing is to be told. The caller holds the mutex of watches.
func (w *watch) rest() {
	if w.quit != nil {
		close(w.quit)
		w.quit = nil
	}
}

// end is the last news of a watch.
func (w *watch) end(unique bool) engine.News {
	if w.deleted && unique {
		return engine.News{State: &engine.State{}, Over: true}
	}
	return engine.News{Over: true}
}

// reconnected ends the engine's watches of the connection before.
func (w *watches) reconnected() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.epoch++
	for _, entry := range w.set {
		entry.fresh = nil
		entry.over()
	}
}

// answered notes that the server has set watches on the present connection, or set them again. It is called before the
// library is shown the answer.
func (w *watches) answered(keys []watchKey, again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range keys {
		if entry, ok := w.set[key]; ok && entry.epoch != w.epoch {
			entry.epoch, entry.again = w.epoch, time.Time{}
			if again {
				entry.again = time.Now()
			}
		}
	}
}

// confirmed tells that all changes before a time have been told, by the watches that the server has. One that was set
// again misses a node which was made and removed before: so it tells that only as of later times. Those of a caller's
// connection that are not relayed are forgotten once they have fired.
func (w *watches) confirmed(asOf time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, entry := range w.set {
		switch {
		case entry.confirms != nil && entry.quit == nil:
			select {
			case e := <-entry.events: // nil until the watch has been set
				w.fire(key, entry, e)
			default:
			}
		case entry.confirms != nil:
			select {
			case entry.confirms <- asOf:
			default:
			}
		case entry.epoch == w.epoch && !asOf.Before(entry.again):
			entry.confirm(asOf)
		}
	}
}

// confirm is confirmed for one watch. The caller holds the mutex of watches.
func (w *watch) confirm(asOf time.Time) {
	for tell := range w.tells {
		(*tell)(engine.News{AsOf: asOf})
	}
}

// join returns the watch for the key, and whether the caller has to set it.
func (w *watches) join(key watchKey, callers bool) (*watch, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if entry, ok := w.set[key]; ok {
		return entry, false
	}
	if w.set == nil {
		w.set = map[watchKey]*watch{}
	}
	entry := &watch{path: key.path, ready: make(chan struct{}), tells: map[*engine.Tell]bool{}}
	if callers {
		entry.confirms = make(chan time.Time, 1)
	}
	w.set[key] = entry
	return entry, true
}

// settle says whether the watch could be set, and on a caller's connection the channel of the library's.
func (w *watches) settle(key watchKey, entry *watch, events <-chan zk.Event, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if entry.confirms != nil {
		entry.events = events
	}
	if entry.failed = !ok; !ok && w.set[key] == entry {
		delete(w.set, key)
	}
	close(entry.ready)
}

// begin tells a state that was read after the watch had been set, and from then on what the watch tells. Watches that
// the server has on the present connection tell in the order of the changes; those that the library is about to set again
// don't, and a caller's connection has no order. unique says that the node is an entry.
func (w *watches) begin(entry *watch, unique bool, state engine.State, tell engine.Tell) engine.Watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !entry.fired || !entry.deleted || !unique { // else it has been deleted since it was read
		tell(engine.News{State: &state})
	}
	if entry.fired {
		tell(entry.end(unique))
	} else {
		entry.tells[&tell] = unique
		if entry.events != nil && entry.quit == nil {
			entry.quit = make(chan struct{})
			w.relay(entry, entry.quit)
		}
	}
	stream := entry.epoch
	if stream != w.epoch {
		stream = 0
	}
	return engine.Watch{Stream: stream, Stop: func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if delete(entry.tells, &tell); len(entry.tells) == 0 {
			entry.rest()
		}
	}}
}

// keep keeps what was read when a watch was set, for the watch that the engine is going to ask for.
func (w *watches) keep(entry *watch, n node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if entry.epoch == w.epoch {
		entry.fresh = &n
	}
}

// kept returns a watch that has been set and has not fired, with what was read then, if that has not been used yet. On
// one connection that is as good as to read now: the server tells of a change before it answers what has seen it. On a
// caller's connection it is not.
func (w *watches) kept(key watchKey) (entry *watch, n node, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	entry = w.set[key]
	if entry == nil || entry.fresh == nil || w.epoch == 0 {
		return nil, node{}, false
	}
	n, entry.fresh = *entry.fresh, nil
	return entry, n, true
}

// node is what a read returned.
type node struct {
	data []byte
	stat *zk.Stat
}

// readNode reads a node.
func (d *driver) readNode(path string) (node, error) {
	data, stat, err := d.conn.Get(path)
	return node{data, stat}, err
}

// watchNode reads a node and returns the watch of its next change. If the node does not exist it says zk.ErrNoNode and
// sets no watch.
func (d *driver) watchNode(ctx context.Context, path string) (node, *watch, error) {
	return d.watch(ctx, watchKey{path, false},
		func() (node, error) { return d.readNode(path) },
		func() (node, <-chan zk.Event, error) {
			data, stat, ch, err := d.conn.GetW(path)
			return node{data, stat}, ch, err
		})
}

// watchAbsent returns the watch of a node's creation. If the node exists it says zk.ErrNodeExists and the watch is of
// no use.
func (d *driver) watchAbsent(ctx context.Context, path string) (*watch, error) {
	_, w, err := d.watch(ctx, watchKey{path, true},
		func() (node, error) {
			exists, stat, err := d.conn.Exists(path)
			if exists {
				err = zk.ErrNodeExists
			}
			return node{nil, stat}, err
		},
		func() (node, <-chan zk.Event, error) {
			exists, stat, ch, err := d.conn.ExistsW(path)
			if exists {
				err = zk.ErrNodeExists // the library now has a watch on the data, which nothing waits for
			}
			return node{nil, stat}, ch, err
		})
	return w, err
}

// watch joins the watch for key and reads the node, with a plain read if the watch has been set already: every later
// change fires it.
func (d *driver) watch(ctx context.Context, key watchKey, read func() (node, error),
	set func() (node, <-chan zk.Event, error),
) (node, *watch, error) {
	for {
		entry, mine := d.watches.join(key, d.config.Conn != nil)
		if mine {
			var events <-chan zk.Event
			n, err := receive(ctx, asyncThen(d, func() (n node, err error) {
				n, events, err = set()
				return n, err
			}, func(err error) { d.watches.settle(key, entry, events, err == nil) }))
			return n, entry, err
		}
		select {
		case <-entry.ready:
		case <-ctx.Done():
			return node{}, nil, d.unreached(ctx)
		}
		if entry.failed {
			continue
		}
		n, err := request(ctx, d, read)
		return n, entry, err
	}
}

// relay does for a caller's connection what the library's callback does for an own one, while there is something to tell.
// It alone reads the watch's channel then, so a confirmation comes behind what the library has told before.
func (d *driver) relay(entry *watch, quit <-chan struct{}) {
	for {
		var asOf time.Time
		select {
		case e := <-entry.events:
			d.watches.event(zk.Event{Type: e.Type, Path: entry.path})
			return
		case asOf = <-entry.confirms:
		case <-quit:
			return
		case <-d.life.Background.Done():
			return
		}
		select {
		case e := <-entry.events:
			d.watches.event(zk.Event{Type: e.Type, Path: entry.path})
			return
		default:
			d.watches.mu.Lock()
			entry.confirm(asOf)
			d.watches.mu.Unlock()
		}
	}
}
