package zookeeper

import (
	"context"
	"sync"

	"github.com/go-zookeeper/zk"
)

// watches are the one-shot watches that are set. All that wait for the same node share one: the library keeps a channel
// for every call that sets a watch until it fires, and can't take one back.
type watches struct {
	mu  sync.Mutex
	set map[watchKey]*watch // guarded by mu
}

// watchKey tells the watch on a node that exists from that on one that does not yet.
type watchKey struct {
	path   string
	absent bool
}

// watch is the next change of a node.
type watch struct {
	epoch   uint64        // constant: the connection on which it was set
	ready   chan struct{} // closed when it is known whether the watch could be set
	failed  bool          // written before ready is closed
	fired   chan struct{} // closed at the change
	deleted bool          // written before fired is closed: the change was the node's end
}

// gone reports whether the watch has fired because the node was deleted.
func (w *watch) gone() bool { return w.hasFired() && w.deleted }

func (w *watch) hasFired() bool {
	select {
	case <-w.fired:
		return true
	default:
		return false
	}
}

// event is the library's callback: it runs between two messages from the server, in their order, so that the watch of
// an earlier change is always fired first. It must not block or use the connection.
func (w *watches) event(e zk.Event) {
	if e.Type == zk.EventSession {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range []watchKey{{e.Path, false}, {e.Path, true}} {
		if entry, ok := w.set[key]; ok {
			delete(w.set, key)
			entry.deleted = e.Type == zk.EventNodeDeleted
			close(entry.fired)
		}
	}
}

// join returns the watch for the key, and whether the caller has to set it.
func (w *watches) join(key watchKey, epoch uint64) (*watch, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if entry, ok := w.set[key]; ok {
		return entry, false
	}
	if w.set == nil {
		w.set = map[watchKey]*watch{}
	}
	entry := &watch{epoch: epoch, ready: make(chan struct{}), fired: make(chan struct{})}
	w.set[key] = entry
	return entry, true
}

// settle says whether the watch could be set.
func (w *watches) settle(key watchKey, entry *watch, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if entry.failed = !ok; !ok && w.set[key] == entry {
		delete(w.set, key)
	}
	close(entry.ready)
}

// node is what a read returned.
type node struct {
	data []byte
	stat *zk.Stat
}

// watchNode reads a node and returns the watch of its next change. If the node does not exist it says zk.ErrNoNode
// and sets no watch.
func (s *Store) watchNode(ctx context.Context, path string) (node, *watch, error) {
	return s.watch(ctx, watchKey{path, false},
		func() (node, error) { data, stat, err := s.conn.Get(path); return node{data, stat}, err },
		func() (node, <-chan zk.Event, error) {
			data, stat, ch, err := s.conn.GetW(path)
			return node{data, stat}, ch, err
		})
}

// watchAbsent returns the watch of a node's creation. If the node exists it says zk.ErrNodeExists and the watch is
// of no use.
func (s *Store) watchAbsent(ctx context.Context, path string) (*watch, error) {
	_, w, err := s.watch(ctx, watchKey{path, true},
		func() (node, error) {
			exists, stat, err := s.conn.Exists(path)
			if exists {
				err = zk.ErrNodeExists
			}
			return node{nil, stat}, err
		},
		func() (node, <-chan zk.Event, error) {
			exists, stat, ch, err := s.conn.ExistsW(path)
			if exists {
				err = zk.ErrNodeExists // the library now has a watch on the data, for which nothing waits
			}
			return node{nil, stat}, ch, err
		})
	return w, err
}

// watch joins the watch for key and reads the node, with a plain read where the watch has been set already: all that
// changed after that is going to fire it.
func (s *Store) watch(ctx context.Context, key watchKey, read func() (node, error),
	set func() (node, <-chan zk.Event, error),
) (node, *watch, error) {
	for {
		epoch, _ := s.connection()
		entry, mine := s.watches.join(key, epoch)
		if mine {
			n, err := receive(ctx, asyncThen(s, func() (node, error) {
				n, ch, err := set()
				if err == nil && s.config.Conn != nil {
					s.life.Go(func() { s.relay(key.path, ch) })
				}
				return n, err
			}, func(err error) { s.watches.settle(key, entry, err == nil) }))
			return n, entry, err
		}
		select {
		case <-entry.ready:
		case <-ctx.Done():
			return node{}, nil, context.Cause(ctx)
		}
		if entry.failed {
			continue
		}
		n, err := request(ctx, s, read)
		return n, entry, err
	}
}

// relay does for a connection that is not ours what the library's callback does for our own.
func (s *Store) relay(path string, ch <-chan zk.Event) {
	select {
	case e := <-ch:
		s.watches.event(zk.Event{Type: e.Type, Path: path})
	case <-s.life.Background.Done():
	}
}
