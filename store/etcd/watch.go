package etcd

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// watches are the watches that are set: one for each key, however many listen to it, all on one stream.
//
// They begin now, never at a revision of the past: those the cluster delivers in a loop that runs every 100 ms. So the
// key is read once the watch has been set. When the stream breaks all are over, and the engine sets them again.
//
// The events of one stream usually come in the order of the revisions, except those of one revision, and those of a
// stream that is slower than its events. One goroutine tells them in the order in which they came. The client library's
// own watcher has a goroutine for each, and loses the order between two keys. TestRoundTrips needs that order: a ballot
// leads without a request when the only one ahead has gone.
//
// What a listener is told never goes back. A listener is told what was read, or what its watch has told since, and then
// the later events. What is read later by another listener is at least as new as all that was told before: each event
// raises the floor of the reads (revision.go) before it is told.
type watches struct {
	queued chan struct{} // has room for one: there are requests to send

	mu       sync.Mutex         // held while listeners are told
	stream   uint64             // guarded by mu, as are all below: the number of the stream, less one
	set      map[string]*watch  // by key
	byID     map[int64]*watch   // those that the cluster has confirmed
	creating []*watch           // those that it has not, in the order in which it was asked
	requests []*pb.WatchRequest // to be sent
	dated    map[*listener]bool // those that want to be told News.AsOf, and have been told something
	marks    []mark             // of the progress that was asked for
	asked    bool               // progress was asked for since the last message
	messages int                // how many have come
}

// watch is the watch of a key.
type watch struct {
	key       string
	stream    uint64        // constant
	ready     chan struct{} // closed when the cluster has confirmed the watch, or refused it
	err       error         // written before ready is closed: why it was not set
	id        int64         // guarded by the mu of watches, as are all below
	over      bool          // the stream broke
	last      *mvccpb.Event // nil if there was none
	listeners map[*listener]struct{}
}

// listener is one who wants to know what is at a key.
type listener struct {
	key   string
	tell  engine.Tell
	state func(*mvccpb.KeyValue) engine.State // what the value at the key means, nil if there is none
	dated bool                                // wants to be told News.AsOf: ballots do without

	watch *watch // written by join
	seen  int64  // guarded by the mu of watches: the revision of what it was told last; 0 before the first
}

// newListener returns one for an entry.
func newListener(entry string, tell engine.Tell) *listener {
	return &listener{key: keyOf(entry), tell: tell, state: func(kv *mvccpb.KeyValue) engine.State { return entryState(entry, kv) }}
}

// mark is a request for progress: at the time sent, the cluster had come to this revision.
type mark struct {
	revision int64
	sent     time.Time
}

// ready waits until the cluster has confirmed a watch.
func (d *driver) ready(ctx context.Context, w *watch) error {
	select {
	case <-w.ready:
		return w.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", store.ErrUnavailable, d.unreached(ctx))
	}
}

// join makes the listener one of the watch of its key, which is asked for if there is none.
func (ws *watches) join(l *listener) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w, ok := ws.set[l.key]
	if !ok {
		w = &watch{key: l.key, stream: ws.stream + 1, ready: make(chan struct{}), listeners: map[*listener]struct{}{}}
		if ws.set == nil {
			ws.set = map[string]*watch{}
		}
		ws.set[l.key] = w
		ws.creating = append(ws.creating, w)
		ws.ask(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
			CreateRequest: &pb.WatchCreateRequest{Key: []byte(l.key)},
		}})
	}
	l.watch = w
	w.listeners[l] = struct{}{}
}

// leave takes a listener away, and the watch back if it was the last one.
func (ws *watches) leave(l *listener) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := l.watch
	if _, there := w.listeners[l]; !there {
		return
	}
	delete(w.listeners, l)
	delete(ws.dated, l)
	if len(w.listeners) == 0 && ws.set[w.key] == w {
		delete(ws.set, w.key)
		ws.cancel(w)
	}
}

// show tells the listeners what was found at their keys by a read that was sent at that time, unless the stream has
// broken since.
func (ws *watches) show(listeners []*listener, found []*pb.RangeResponse, revision int64, sent time.Time) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, l := range listeners {
		if l.watch.over {
			return errBroke
		}
	}
	for i, l := range listeners {
		l.seen = revision
		if l.dated {
			ws.dated[l] = true
		}
		if e := l.watch.last; e != nil && e.Kv.ModRevision > revision {
			l.hear(e)
			continue
		}
		state := l.state(first(found[i]))
		state.AsOf = sent
		l.tell(engine.News{State: &state})
	}
	return nil
}

// errBroke says that the watches have to be set again.
var errBroke = fmt.Errorf("%w: the stream of watches broke", store.ErrUnavailable)

// hear tells the listener of an event, unless it knows of a later one. The caller holds the mu of watches.
func (l *listener) hear(e *mvccpb.Event) {
	if l.seen == 0 || e.Kv.ModRevision <= l.seen {
		return
	}
	l.seen = e.Kv.ModRevision
	kv := e.Kv
	if e.Type == mvccpb.Event_DELETE {
		kv = nil
	}
	state := l.state(kv)
	l.tell(engine.News{State: &state})
}

// happened tells all who listen of an event. The caller holds mu.
func (w *watch) happened(e *mvccpb.Event) {
	w.last = e
	for l := range w.listeners {
		l.hear(e)
	}
}

// confirmed tells those that want to know that they know all there was at that time. The caller holds mu.
func (ws *watches) confirmed(asOf time.Time) {
	for l := range ws.dated {
		l.tell(engine.News{AsOf: asOf})
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

// progress asks the cluster to say when the watches have told all up to a revision. It does not answer before it has set
// those that it was asked for.
func (ws *watches) progress(revision int64, sent time.Time) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.set) > 0 {
		ws.marks = append(ws.marks, mark{revision, sent})
		ws.askProgress()
	}
}

// askProgress asks for the progress of the watches. The caller holds mu.
func (ws *watches) askProgress() {
	ws.asked = true
	ws.ask(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
}

// silent reports whether the cluster has left several requests for progress unanswered. Then the stream is of no use: some
// watch is silent, or none has been confirmed.
func (ws *watches) silent() bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.marks) > 2
}

// breakOff ends all watches: the stream is no more. Those that have not been confirmed get to know why.
func (ws *watches) breakOff(err error) {
	if !store.Refused(err) {
		err = fmt.Errorf("%w: %w", errBroke, err)
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.creating {
		w.over, w.err = true, err
		close(w.ready)
	}
	for _, w := range ws.byID {
		w.over = true
		for l := range w.listeners {
			if l.seen != 0 {
				l.tell(engine.News{Over: true})
			}
		}
	}
	clear(ws.dated)
	ws.stream++
	ws.set, ws.byID, ws.creating, ws.requests, ws.marks, ws.asked = nil, nil, nil, nil, nil, false
}
