package etcd

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// watches are the watches that are set, all on one stream.
//
// A watch begins at the present, never at a revision of the past: etcd delivers past events in a loop that runs every 100 ms.
// So the key is read once the watch has been set. When the stream breaks, all watches are over, and the engine sets them
// again.
//
// The events of one stream come in the order of the revisions, except the events of one revision, and if the client is
// slower than the events: the server holds 128 for a stream behind what the connection takes, some 2,400 of small events,
// and sends those of a watch that found no room 10 to 100 ms later. That matters only if an operator deletes a waiter's
// ballot meanwhile. An answer to a request for progress would prove that none is late, but does not say which request it
// answers, and the server drops requests while one is late.
//
// One goroutine tells the events in the order in which they came. The client library's own watcher has a goroutine for each
// watch, and loses the order between two keys. TestRoundTrips needs that order: a ballot leads without a request when the
// only ballot ahead has gone.
//
// A key's news never goes back in time, even across successive watches. A watch tells what was read, or an event that is
// later, and then the later events. Each event raises the floor of the reads (revision.go) before it is told. So the read for
// a later watch is at least as new as all earlier news.
type watches struct {
	queued chan struct{} // has room for one: there are requests to send

	mu       sync.Mutex         // held while watches tell
	stream   uint64             // guarded by mu, as are all below: the number of the stream, from 1 on
	byID     map[int64]*watch   // the watches that the cluster has confirmed
	creating []*watch           // the watches that the cluster was asked for and has not confirmed, the first asked first
	requests []*pb.WatchRequest // to be sent
	marks    []mark             // of the progress that was asked for
	asked    bool               // progress was asked for since the last message
	messages int64              // how many have come
}

// watch is the watch of a key.
type watch struct {
	key   string
	tell  engine.Tell
	state func(*mvccpb.KeyValue) engine.State // what the value at the key means, nil if there is none
	dated bool                                // tells News.AsOf: the engine needs none of entries

	request *pb.WatchRequest // written by set: asks for the watch

	stream uint64        // written by set
	ready  chan struct{} // made by set; closed when the cluster has confirmed the watch, or refused it
	err    error         // written before ready is closed: why it was not set

	id       int64         // guarded by the mu of watches, as are all below
	stopped  bool          // it is to be cancelled
	last     *mvccpb.Event // nil if there was none
	revision int64         // the revision of what was told last; 0 before the first
}

// entryWatch returns a watch of an entry.
func entryWatch(entry string, tell engine.Tell) *watch {
	state := func(kv *mvccpb.KeyValue) engine.State { return entryState(entry, kv) }
	return &watch{key: keyOf(entry), tell: tell, state: state}
}

// mark is a request for progress: at the time sent, the cluster had this revision.
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
		return fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
	}
}

// set asks for a watch.
func (ws *watches) set(w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.stream, w.ready = ws.stream, make(chan struct{})
	ws.creating = append(ws.creating, w)
	w.request = &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
		CreateRequest: &pb.WatchCreateRequest{Key: []byte(w.key)},
	}}
	ws.ask(w.request)
}

// stop cancels a watch, at once or when the cluster has confirmed it. A request for a watch that was not sent yet is dropped:
// in an outage such requests would collect (TestUnsentWatchesAreForgotten).
func (ws *watches) stop(w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.stopped = true
	if i := slices.Index(ws.requests, w.request); i >= 0 {
		ws.requests = slices.Delete(ws.requests, i, i+1)
		ws.creating = slices.DeleteFunc(ws.creating, func(c *watch) bool { return c == w })
		return
	}
	ws.cancel(w)
}

// show tells what was found at the key of a watch by a read that was sent at that time, unless the stream has broken since.
func (ws *watches) show(w *watch, found *mvccpb.KeyValue, revision int64, sent time.Time) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.stream != ws.stream {
		return errBroke
	}
	w.revision = revision
	if e := w.last; e != nil && e.Kv.ModRevision > revision {
		w.happened(e)
		return nil
	}
	state := w.state(found)
	w.tell(engine.News{State: &state, AsOf: sent})
	return nil
}

// errBroke says that the watches have to be set again.
var errBroke = fmt.Errorf("%w: the stream of watches broke", store.ErrUnavailable)

// happened tells of an event, unless a later one has been told, or nothing has been read yet. The caller holds mu.
func (w *watch) happened(e *mvccpb.Event) {
	w.last = e
	if w.revision == 0 || e.Kv.ModRevision <= w.revision {
		return
	}
	w.revision = e.Kv.ModRevision
	kv := e.Kv
	if e.Type == mvccpb.Event_DELETE {
		kv = nil
	}
	state := w.state(kv)
	w.tell(engine.News{State: &state})
}

// cancel cancels a watch that the cluster has confirmed. The caller holds mu.
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

// progress asks the cluster to say when the watches have told all up to a revision. The cluster sets the watches that were
// asked for before it answers.
func (ws *watches) progress(revision int64, sent time.Time) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.creating)+len(ws.byID) > 0 {
		ws.marks = append(ws.marks, mark{revision, sent})
		ws.askProgress()
	}
}

// askProgress asks for the progress of the watches. The caller holds mu.
func (ws *watches) askProgress() {
	ws.asked = true
	ws.ask(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
}

// breakOff ends all watches: the stream has broken. A watch that has not been confirmed gets the error.
func (ws *watches) breakOff(err error) {
	if !store.Refused(err) {
		err = fmt.Errorf("%w: %w", errBroke, err)
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.creating {
		w.err = err
		close(w.ready)
	}
	for _, w := range ws.byID {
		if w.revision != 0 {
			w.tell(engine.News{Over: true})
		}
	}
	ws.stream++
	ws.byID, ws.creating, ws.requests, ws.marks, ws.asked = map[int64]*watch{}, nil, nil, nil, false
}
