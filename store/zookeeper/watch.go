package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-zookeeper/zk"
)

// watches are the engine's watches on one connection. A watch is on one node. It reports the state that was read, then one
// change of the node, and is over. All watches are over before requests use the next connection.
//
// The library passes every event to a callback. For each read that asks for a watch, the library keeps a channel until the
// node changes. So a read asks for a watch only if the server has none on the node, and there is at most one channel for
// each node (TestStoppedFollowersLeaveOneWatch, TestAbandonedReadLeavesOneWatch).
//
// A watch is registered before its read is sent. The server sends events and answers in the order of the changes. So a
// watch whose read was answered, and that is not over, misses no change.
type watches struct {
	number uint64 // constant: of the connection

	mu    sync.Mutex
	set   map[string]*watched // guarded by mu, as are ended, and the fields of watched and watch: by path
	ended bool                // the connection has
}

// watched is a node that is watched.
type watched struct {
	armed bool     // the server has a watch
	fresh *node    // what Enter has read, until the engine asks for it; nil if there is none
	list  []*watch // the watches that are not over
}

// watch is a watch of the engine's.
type watch struct {
	path  string       // constant
	on    *watched     // constant
	entry bool         // constant: the node is an entry, which never comes back
	tell  engine.Tell  // nil before begin
	end   *engine.News // its last news; nil until the watch is over
}

// add registers a watch. It reports whether the server has a watch on the node. fresh is what Enter has read, unless the
// engine has asked for it before. On one connection that is as good as a new read: the server sends the event of a change
// before any answer that reflects the change.
func (w *watches) add(path string, entry bool) (x *watch, armed bool, fresh *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	on := w.set[path]
	if on == nil {
		on = &watched{}
	}
	x = &watch{path: path, on: on, entry: entry}
	if w.ended {
		x.end = &engine.News{Over: true}
		return x, false, nil
	}
	if w.set == nil {
		w.set = map[string]*watched{}
	}
	w.set[path] = on
	on.list = append(on.list, x)
	fresh, on.fresh = on.fresh, nil
	return x, on.armed, fresh
}

// arm records that the server has a watch since the read of x. If x is over, the server's watch has fired already.
func (w *watches) arm(x *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x.on.armed = x.on.armed || x.end == nil
}

// keep removes a watch and keeps what its read returned, for the next call of add: the engine watches a ballot right after
// Enter has read it. That saves a request and a round trip for each ballot (bench: TestRequestsPerChange).
func (w *watches) keep(x *watch, n node) {
	w.remove(x)
	w.mu.Lock()
	defer w.mu.Unlock()
	if x.end == nil {
		x.on.fresh = &n
	}
}

// remove takes a watch back. The server keeps its own until the node changes.
func (w *watches) remove(x *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x.on.list = slices.DeleteFunc(x.on.list, func(y *watch) bool { return x == y })
	if len(x.on.list) == 0 && !x.on.armed && w.set[x.path] == x.on {
		delete(w.set, x.path)
	}
}

// begin reports a state that was read after the watch was registered, and from then on the news of the watch.
func (w *watches) begin(x *watch, read engine.News, tell engine.Tell) engine.Watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	if x.end == nil || x.end.State == nil { // else it has been deleted since it was read
		tell(read)
	}
	if x.tell = tell; x.end != nil {
		tell(*x.end)
	}
	return engine.Watch{Stream: w.number, Stop: func() { w.remove(x) }}
}

// event is the library's callback: it runs between two messages from the server, in their order. It must not block or
// use the connection.
func (w *watches) event(e zk.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over(e.Path, e.Type == zk.EventNodeDeleted)
}

// over ends the watches on a node. The caller holds mu.
func (w *watches) over(path string, deleted bool) {
	on := w.set[path]
	if on == nil {
		return
	}
	for _, x := range on.list {
		x.end = &engine.News{Over: true}
		if deleted && x.entry {
			x.end.State = &engine.State{}
		}
		if x.tell != nil {
			x.tell(*x.end)
		}
	}
	delete(w.set, path)
}

// end ends all watches, even those whose read has not been answered.
func (w *watches) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	for path := range w.set {
		w.over(path, false)
	}
}

// confirmed reports that all changes before a time have been reported. The engine does not need that for entries: for those
// of 10,000 elections it took 1 % of a processor.
func (w *watches) confirmed(asOf time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, on := range w.set {
		for _, x := range on.list {
			if x.tell != nil && !x.entry {
				x.tell(engine.News{AsOf: asOf})
			}
		}
	}
}

// node is what a read returned. stat is nil if there is no such node.
type node struct {
	path string
	data []byte
	stat *zk.Stat
}

// readNode reads a node.
func readNode(c *zk.Conn, path string) (node, error) {
	data, stat, err := c.Get(path)
	return node{path, data, stat}, err
}

// watch reads a node and returns the watch of its next change. An entry that does not exist is an error, zk.ErrNoNode,
// without a watch; only its stat is read if the server has a watch on it.
func (l *link) watch(ctx context.Context, path string, entry bool) (node, *watch, error) {
	x, armed, fresh := l.watches.add(path, entry)
	if fresh != nil {
		return *fresh, x, nil
	}
	answer := async(l, func(c *zk.Conn) (n node, err error) {
		if n, err = read(c, path, entry, armed); err == nil {
			l.watches.arm(x)
		}
		return n, err
	})
	n, err := receive(ctx, answer)
	if err != nil {
		l.driver.lifecycle.Go(func() { // the caller might have gone before the answer
			<-answer
			l.watches.remove(x)
		})
	}
	return n, x, err
}

// read reads a node, and sets a watch unless the server has one.
func read(c *zk.Conn, path string, entry, armed bool) (node, error) {
	switch {
	case armed && entry:
		return statEntry(c, path)
	case armed:
		return present(readNode(c, path))
	case entry:
		data, stat, _, err := c.GetW(path)
		return node{path, data, stat}, err
	}
	return watchLeader(c, path)
}

// statEntry reads an entry's stat.
func statEntry(c *zk.Conn, path string) (node, error) {
	exists, stat, err := c.Exists(path)
	if err == nil && !exists {
		err = zk.ErrNoNode
	}
	return node{path: path, stat: stat}, err
}

// present returns a node without a stat for one that does not exist.
func present(n node, err error) (node, error) {
	if errors.Is(err, zk.ErrNoNode) {
		return node{path: n.path}, nil
	}
	return n, err
}

// watchLeader reads the node of an acknowledgement, and sets a watch whether there is one or not, in one round trip. (GetW sets
// none if there is no node.) Either request might be sent first. If both have seen the same version of the node, it has not
// changed in between.
func watchLeader(c *zk.Conn, path string) (node, error) {
	read := make(chan result[node], 1)
	go func() {
		n, err := present(readNode(c, path))
		read <- result[node]{n, err}
	}()
	_, stat, _, err := c.ExistsW(path) // stat is zero if there is no node
	r := <-read
	if err != nil || r.err == nil && cmp.Or(r.value.stat, &zk.Stat{}).Mzxid == stat.Mzxid {
		return r.value, err
	}
	return present(readNode(c, path))
}
