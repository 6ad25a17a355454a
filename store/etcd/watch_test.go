package etcd

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// heard is what watches have reported, in one order.
type heard []string

// watch returns a watch of an election's leader that records what it reports.
func (h *heard) watch(name, key string) *watch {
	return &watch{key: key, state: leaderState, dated: true, tell: func(n engine.News) {
		switch {
		case n.Over:
			*h = append(*h, name+" over")
		case n.State != nil:
			*h = append(*h, fmt.Sprintf("%s %d", name, n.State.Leader.Revision))
		default:
			*h = append(*h, name+" as of "+n.AsOf.Format("05"))
		}
	}}
}

func (h *heard) take() heard {
	list := *h
	*h = nil
	return list
}

// watching is a driver without a cluster.
func watching() *driver {
	d, err := newDriver(Config{Endpoints: []string{"member"}})
	if err != nil {
		panic(err)
	}
	return d
}

// confirms is the cluster's answer to the oldest request for a watch.
func (d *driver) confirms(t *testing.T, id, revision int64) {
	t.Helper()
	require.NoError(t, d.handle(&pb.WatchResponse{Header: &pb.ResponseHeader{Revision: revision}, Created: true, WatchId: id}))
}

// changes is an event of the cluster.
func (d *driver) changes(t *testing.T, id int64, key string, revision int64) {
	t.Helper()
	require.NoError(t, d.handle(&pb.WatchResponse{
		Header: &pb.ResponseHeader{Revision: revision}, WatchId: id,
		Events: []*mvccpb.Event{{Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: revision}}},
	}))
}

// progresses is the cluster's answer to a request for progress.
func (d *driver) progresses(t *testing.T, revision int64) {
	t.Helper()
	require.NoError(t, d.handle(&pb.WatchResponse{Header: &pb.ResponseHeader{Revision: revision}, WatchId: -1}))
}

// shows is the answer to a read.
func (d *driver) shows(l *watch, key string, revision int64) error {
	kv := &mvccpb.KeyValue{Key: []byte(key), ModRevision: revision}
	return d.watches.show(l, kv, revision, time.Time{})
}

// TestUnsentWatchesAreForgotten: a watch that is taken back before it was asked for, in an outage say, leaves nothing.
func TestUnsentWatchesAreForgotten(t *testing.T) {
	var h heard
	d := watching()
	for range 100 {
		l, kept := h.watch("given up", "a"), h.watch("kept", "k")
		d.watches.set(l)
		d.watches.set(kept)
		d.watches.stop(l)
		require.Len(t, d.watches.requests, 1)
		require.Len(t, d.watches.creating, 1)
		d.watches.stop(kept)
	}
	require.Empty(t, d.watches.take())
}

// A watch first reports what was read, and then what is newer. An event that comes in between is reported instead of an
// older read, and never after a read that contains it.
func TestWatchTellsNoOldNews(t *testing.T) {
	var h heard
	d := watching()
	l := h.watch("l", "a")
	d.watches.set(l)
	d.confirms(t, 1, 10)
	d.changes(t, 1, "a", 12)
	require.Empty(t, h, "the read comes first")
	require.NoError(t, d.shows(l, "a", 11))
	require.Equal(t, heard{"l 12"}, h.take())
	d.changes(t, 1, "a", 13)
	require.Equal(t, heard{"l 13"}, h.take())

	second := h.watch("second", "a")
	d.watches.set(second)
	d.confirms(t, 2, 13)
	require.NoError(t, d.shows(second, "a", 15))
	d.changes(t, 2, "a", 14) // the member that has the watches lags behind the one that was read from
	require.Equal(t, heard{"second 15"}, h.take())
	d.changes(t, 2, "a", 16)
	require.Equal(t, heard{"second 16"}, h.take())
}

// When the stream breaks, all watches that have reported something are told that they are over. The others do not
// report what they have read. The next watches are on another stream.
func TestBreakEndsAllWatches(t *testing.T) {
	var h heard
	d := watching()
	l, reading, creating := h.watch("l", "a"), h.watch("reading", "b"), h.watch("creating", "c")
	for _, l := range []*watch{l, reading, creating} {
		d.watches.set(l)
	}
	d.confirms(t, 1, 10)
	d.confirms(t, 2, 10)
	require.NoError(t, d.shows(l, "a", 10))
	h.take()
	d.watches.breakOff(fmt.Errorf("cut"))
	require.Equal(t, heard{"l over"}, h.take())
	require.ErrorIs(t, d.shows(reading, "b", 11), store.ErrUnavailable)
	require.ErrorIs(t, d.ready(t.Context(), creating), store.ErrUnavailable)
	require.Empty(t, h)

	again := h.watch("again", "a")
	d.watches.set(again)
	require.NotEqual(t, l.stream, again.stream)
	d.confirms(t, 1, 10) // with the identifier that the old one had
	d.watches.stop(l)
	require.Len(t, d.watches.byID, 1)
}

// A watch that is stopped is cancelled at once, or when the cluster has confirmed it.
func TestWatchIsTakenBack(t *testing.T) {
	var h heard
	d := watching()
	canceled := func() (ids []int64) {
		for _, r := range d.watches.take() {
			if c := r.GetCancelRequest(); c != nil {
				ids = append(ids, c.WatchId)
			}
		}
		return ids
	}
	one, two := h.watch("one", "a"), h.watch("two", "a")
	d.watches.set(one)
	d.watches.set(two)
	require.Empty(t, canceled(), "both are asked for")
	d.confirms(t, 0, 10) // the cluster's first identifier
	d.watches.stop(two)
	require.Empty(t, canceled())
	d.confirms(t, 1, 10)
	require.Equal(t, []int64{1}, canceled())
	d.watches.stop(two)
	require.Empty(t, canceled())
	d.watches.stop(one)
	require.Equal(t, []int64{0}, canceled())
	require.Empty(t, d.watches.byID)
}
