package etcd

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// watches are the watches that are set: one for each key, however many wait for it, all on one stream. Each tells the
// next change and is then taken back; the watch of a follower goes on for a while, since the follower will come back.
//
// Watches begin now, never at a past revision: the cluster serves past revisions in a loop that runs every 100 ms. So
// the key is read after its watch is set. When the stream breaks all watches are over, and the waiters set them again.
//
// The events of one stream usually come in the order of the revisions, except those of one revision, and those of a
// stream that is slower than its events. One goroutine hands them on in the order in which they came. The client
// library's own watcher has a goroutine for each, and loses the order between two keys.
type watches struct {
	queued chan struct{} // has room for one: there are requests to send

	mu       sync.Mutex
	stream   uint64             // guarded by mu, as are all below: counts streams
	set      map[string]*watch  // by key
	byID     map[int64]*watch   // those that the cluster has confirmed
	creating []*watch           // those that it has not, in the order in which it was asked
	requests []*pb.WatchRequest // to be sent
	marks    []mark             // of the progress that was asked for
	overdue  int                // how often that was while some watch had not been confirmed, and none was
	asked    bool               // progress was asked for since the last message
	messages int                // how many have come
}

// watch is the next change of a key.
type watch struct {
	key     string
	stream  uint64        // constant
	ready   chan struct{} // closed when the cluster has confirmed the watch, or refused it
	err     error         // written before ready is closed: why it was not set
	since   int64         // written before ready is closed: the revision from which on it tells
	fired   chan struct{} // closed at the change, and when the stream breaks
	event   *mvccpb.Event // written before fired is closed: the change; nil if the stream broke
	id      int64         // guarded by the mu of watches, as is waiting
	waiting int           // how many wait for it
	follow  bool          // guarded likewise: it goes on
	idle    bool          // guarded likewise: nothing has waited for it since rest was called

	told *mvccpb.Event // constant: the change before, where it has told that
}

// mark is a request for progress: at the time sent, the cluster had come to this revision.
type mark struct {
	revision int64
	sent     time.Time
}

// gone reports whether the watch has fired because the key was deleted.
func (w *watch) gone() bool {
	return w.hasFired() && w.event != nil && w.event.Type == mvccpb.Event_DELETE
}

func (w *watch) hasFired() bool {
	select {
	case <-w.fired:
		return true
	default:
		return false
	}
}

// watchKey returns a watch of the key's next change that has been confirmed. It has to be released.
func (s *Store) watchKey(ctx context.Context, key string) (*watch, error) {
	return s.ready(ctx, s.watches.join(key, false))
}

// followKey is watchKey for one who is going to come back for the change after the next.
func (s *Store) followKey(ctx context.Context, key string) (*watch, error) {
	return s.ready(ctx, s.watches.join(key, true))
}

func (s *Store) ready(ctx context.Context, w *watch) (*watch, error) {
	select {
	case <-w.ready:
	case <-ctx.Done():
		s.watches.release(w)
		return nil, s.unreached(ctx)
	}
	if w.err != nil {
		s.watches.release(w)
		return nil, w.err
	}
	return w, nil
}

// join returns the watch of a key, and asks for it if there is none.
func (ws *watches) join(key string, follow bool) *watch {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w, ok := ws.set[key]
	if !ok {
		w = &watch{key: key, stream: ws.stream, ready: make(chan struct{}), fired: make(chan struct{})}
		if ws.set == nil {
			ws.set = map[string]*watch{}
		}
		ws.set[key] = w
		ws.creating = append(ws.creating, w)
		ws.ask(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
			CreateRequest: &pb.WatchCreateRequest{Key: []byte(key)},
		}})
	}
	w.waiting++
	w.follow, w.idle = w.follow || follow, false
	return w
}

// release says that one waits no longer; nil is allowed.
func (ws *watches) release(w *watch) {
	if w == nil {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.waiting--; w.waiting == 0 && ws.set[w.key] == w && !w.follow {
		delete(ws.set, w.key)
		ws.cancel(w)
	}
}

// rest takes back the watches for which nothing has waited since rest was called last.
func (ws *watches) rest() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for key, w := range ws.set {
		switch {
		case w.waiting > 0:
		case w.idle:
			delete(ws.set, key)
			ws.cancel(w)
		default:
			w.idle = true
		}
	}
}

// cancel takes a watch back; one that has not been confirmed yet is taken back then. The caller holds mu.
func (ws *watches) cancel(w *watch) {
	if ws.byID[w.id] != w {
		return
	}
	delete(ws.byID, w.id)
	ws.ask(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{
		CancelRequest: &pb.WatchCancelRequest{WatchId: w.id},
	}})
}

// ask queues a request. The caller holds mu.
func (ws *watches) ask(r *pb.WatchRequest) {
	ws.requests = append(ws.requests, r)
	select {
	case ws.queued <- struct{}{}:
	default:
	}
}

func (ws *watches) take() []*pb.WatchRequest {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	list := ws.requests
	ws.requests = nil
	return list
}

// progress asks the cluster to say when the watches have told all up to a revision. It reports false if there are
// no watches. If an earlier request has not been answered for long the stream is of no use: some watch is silent.
func (ws *watches) progress(revision int64, sent time.Time) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.creating) > 0 {
		ws.overdue++
	}
	if len(ws.byID) == 0 {
		return len(ws.set) > 0
	}
	ws.marks = append(ws.marks, mark{revision, sent})
	ws.askProgress()
	return true
}

// askProgress asks for the progress of the watches. The caller holds mu.
func (ws *watches) askProgress() {
	ws.asked = true
	ws.ask(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
}

// silent reports whether the cluster has left several requests for progress unanswered, or watches unconfirmed for as
// long.
func (ws *watches) silent() bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.marks) > 2 || ws.overdue > 2
}

// breakOff ends all watches: the stream is no more. Those that have not been confirmed get to know why.
func (ws *watches) breakOff(err error) {
	if !store.Refused(err) {
		err = fmt.Errorf("%w: the stream of watches broke: %w", store.ErrUnavailable, err)
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.creating {
		w.err = err
		close(w.ready)
	}
	for _, w := range ws.byID {
		close(w.fired)
	}
	ws.stream++
	ws.set, ws.byID, ws.creating, ws.requests, ws.marks, ws.overdue, ws.asked = nil, nil, nil, nil, nil, 0, false
}

// next replaces a watch that has fired by the watch of the next change, or takes it back. The caller holds mu.
func (ws *watches) next(w *watch) {
	if ws.set[w.key] != w {
		ws.cancel(w)
		return
	}
	if !w.follow {
		delete(ws.set, w.key)
		ws.cancel(w)
		return
	}
	after := &watch{
		key: w.key, stream: w.stream, ready: w.ready, since: w.event.Kv.ModRevision, fired: make(chan struct{}),
		id: w.id, follow: true, told: w.event,
	}
	ws.set[w.key], ws.byID[w.id] = after, after
}
