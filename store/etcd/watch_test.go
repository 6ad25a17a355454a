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

// A read is right as of the time at which it was sent. An event does not show its time.
func TestReadSaysAsOfWhen(t *testing.T) {
	d := watching()
	var told engine.News
	l := &watch{key: "a", state: leaderState, tell: func(n engine.News) { told = n }}
	d.watches.set(l)
	d.confirms(t, 1, 10)
	sent := time.Now()
	require.NoError(t, d.watches.show(l, nil, 11, sent))
	require.Equal(t, engine.News{State: &engine.State{}, AsOf: sent}, told)
	d.changes(t, 1, "a", 12)
	require.Zero(t, told.AsOf)
}

// Before a watch reports anything, also that it is set, it raises the floor of the reads: no later read returns an
// older state.
func TestFloorIsRaisedBeforeAWatchTells(t *testing.T) {
	d := watching()
	var floor int64
	l := &watch{key: "a", state: leaderState, tell: func(engine.News) { floor = d.known().floor }}
	d.watches.set(l)
	d.confirms(t, 1, 10)
	require.EqualValues(t, 10, d.known().floor)
	require.NoError(t, d.shows(l, "a", 10))
	d.changes(t, 1, "a", 12)
	require.EqualValues(t, 12, floor)
	d.changes(t, 1, "a", 11)
	require.EqualValues(t, 12, d.known().floor)
}

// News of a member that lags behind neither hides that the cluster was restored, nor suggests it.
func TestLaggingNewsAreNoReturn(t *testing.T) {
	d := watching()
	require.True(t, d.saw(0, &pb.ResponseHeader{Revision: 100}, false))
	require.False(t, d.saw(100, &pb.ResponseHeader{Revision: 50}, false))
	since := d.revisions.backSince
	require.False(t, since.IsZero())
	d.raise(60)
	require.Equal(t, since, d.revisions.backSince)
	require.True(t, d.saw(50, &pb.ResponseHeader{Revision: 70}, false), "a read that began before the floor was raised")
	require.Equal(t, since, d.revisions.backSince)
	require.EqualValues(t, 100, d.known().floor)
	d.raise(100)
	require.Zero(t, d.revisions.backSince)
}

// A write whose answer has a lower revision than one seen before proves that the cluster was restored; so does a read,
// but only after some time. The store notices a restore once: requests that were sent before and answered later have to
// be sent again.
func TestRestoreIsNoticedOnce(t *testing.T) {
	d := watching()
	require.True(t, d.saw(0, &pb.ResponseHeader{Revision: 100}, false))
	require.True(t, d.saw(100, &pb.ResponseHeader{Revision: 50}, true))
	require.EqualValues(t, 50, d.known().floor)
	require.False(t, d.saw(100, &pb.ResponseHeader{Revision: 49}, true))
	require.EqualValues(t, 50, d.known().floor)
	require.True(t, d.saw(50, &pb.ResponseHeader{Revision: 51}, false))
	d.life.Stop()
	d.life.Wait()
}

// A progress message confirms a request if it covers the revision that the cluster had when the request was sent. It
// confirms it to the watches that have reported something and ask for it.
func TestProgressConfirms(t *testing.T) {
	var h heard
	d := watching()
	l, late, ballot := h.watch("l", "a"), h.watch("late", "b"), h.watch("ballot", "c")
	ballot.dated = false
	for i, l := range []*watch{l, late, ballot} {
		d.watches.set(l)
		d.watches.take()
		d.confirms(t, int64(i+1), 10)
	}
	require.NoError(t, d.shows(l, "a", 10))
	require.NoError(t, d.shows(ballot, "c", 10))
	h.take()
	at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	d.watches.progress(20, at)
	d.watches.progress(30, at.Add(time.Second))
	d.progresses(t, 19)
	require.Empty(t, h)
	d.progresses(t, 20)
	require.Equal(t, heard{"l as of 00"}, h.take())
	require.NoError(t, d.shows(late, "b", 25))
	d.progresses(t, 30)
	require.ElementsMatch(t, heard{"late 25", "l as of 01", "late as of 01"}, h.take())

	d.watches.stop(l)
	d.watches.progress(40, at.Add(2*time.Second))
	d.progresses(t, 40)
	require.Equal(t, heard{"late as of 02"}, h.take(), "the other one has left")
	d.watches.breakOff(fmt.Errorf("cut"))
	require.ElementsMatch(t, heard{"late over", "ballot over"}, h.take())
	d.watches.set(h.watch("again", "a"))
	d.confirms(t, 1, 10)
	d.watches.progress(50, at.Add(3*time.Second))
	d.progresses(t, 50)
	require.Empty(t, h, "the watch before is over, and the new one has told nothing")
}

// A stream on which several requests for progress have no answer is given up, also if no watch was ever confirmed.
func TestStreamWithoutProgressIsSilent(t *testing.T) {
	for name, confirmed := range map[string]bool{"confirmed": true, "not confirmed": false} {
		t.Run(name, func(t *testing.T) {
			var h heard
			d := watching()
			d.watches.progress(5, time.Now()) // nothing is watched: progress is not requested
			d.watches.set(h.watch("l", "a"))
			if confirmed {
				d.confirms(t, 1, 10)
			}
			for range 3 {
				require.False(t, d.watches.silent())
				d.watches.progress(20, time.Now())
			}
			require.True(t, d.watches.silent())
			d.progresses(t, 20)
			require.False(t, d.watches.silent())
		})
	}
}

// While the cluster refuses all watches it reports no progress, but the stream answers and is kept. If one watch is
// set, progress has to come.
func TestRefusedWatchesAreNoSilence(t *testing.T) {
	var h heard
	d := watching()
	refuses := func() {
		t.Helper()
		l := h.watch("l", "a")
		d.watches.set(l)
		d.watches.progress(20, time.Now())
		require.NoError(t, d.handle(&pb.WatchResponse{
			Header: &pb.ResponseHeader{Revision: 10}, Created: true, Canceled: true, WatchId: -1,
			CancelReason: "rpc error: code = PermissionDenied desc = etcdserver: permission denied",
		}))
		require.ErrorIs(t, d.ready(t.Context(), l), store.ErrDenied)
	}
	for range 5 {
		refuses()
		require.False(t, d.watches.silent())
	}
	d.watches.set(h.watch("set", "b"))
	d.confirms(t, 1, 10)
	for range 3 {
		require.False(t, d.watches.silent())
		refuses()
	}
	require.True(t, d.watches.silent())
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

// The key of an entry names one ballot for ever; the client library's own elections reuse a key.
func TestEntryKeyNamesOneBallot(t *testing.T) {
	kv := func(lease, revision int64) *mvccpb.KeyValue {
		return &mvccpb.KeyValue{Key: []byte("p/a@b/_ballots/2a-nonce"), Lease: lease, CreateRevision: revision}
	}
	entry := entryKey("p/a@b/_ballots/2a-nonce", 7)
	require.Equal(t, "p/a@b/_ballots/2a-nonce", keyOf(entry))
	require.Equal(t, engine.State{Token: 7, Session: "2a", Nonce: "nonce"}, entryState(entry, kv(42, 7)))
	require.Zero(t, entryState(entry, nil))
	require.Zero(t, entryState(entry, kv(42, 8)), "another ballot with the same key")
	require.Zero(t, entryState(entry, kv(0, 7)), "it was overwritten, and goes with no lease")
	require.Zero(t, entryState(entry, kv(43, 7)))
	require.Equal(t, engine.State{Token: 7, Session: "2a"},
		entryState("p/x/_ballots/2a@7", &mvccpb.KeyValue{Key: []byte("p/x/_ballots/2a"), Lease: 42, CreateRevision: 7}))
}
