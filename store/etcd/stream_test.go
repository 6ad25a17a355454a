package etcd

import (
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// A message that etcd does not send, or one that ends a watch, makes the stream of no use: it is opened anew, instead of
// leaving a watch without news.
func TestStreamIsOfNoUse(t *testing.T) {
	header := &pb.ResponseHeader{Revision: 12}
	for name, message := range map[string]*pb.WatchResponse{
		"no header":               {WatchId: 1},
		"no key in an event":      {Header: header, WatchId: 1, Events: []*mvccpb.Event{{}}},
		"a watch not asked for":   {Header: header, WatchId: 2, Created: true},
		"a watch that is no more": {Header: header, WatchId: 1, Canceled: true},
	} {
		t.Run(name, func(t *testing.T) {
			var h heard
			d := watching()
			d.watches.set(h.watch("l", "a"))
			d.confirms(t, 1, 10)
			require.Error(t, d.handle(message))
		})
	}
}

// The answer to a request that takes a watch back is no trouble.
func TestStreamIsOfUseWithoutAWatchTakenBack(t *testing.T) {
	var h heard
	d := watching()
	l := h.watch("l", "a")
	d.watches.set(l)
	d.watches.take()
	d.confirms(t, 1, 10)
	d.watches.stop(l)
	require.NoError(t, d.handle(&pb.WatchResponse{Header: &pb.ResponseHeader{Revision: 12}, WatchId: 1, Canceled: true}))
}

// If the token of the stream has expired, all watches need a new stream. If a user may not read one key, others may be read.
func TestRefusedWatch(t *testing.T) {
	for reason, over := range map[string]bool{
		"etcdserver: invalid auth token": true,
		"etcdserver: permission denied":  false,
	} {
		t.Run(reason, func(t *testing.T) {
			var h heard
			d := watching()
			l := h.watch("l", "a")
			d.watches.set(l)
			err := d.handle(&pb.WatchResponse{
				Header: &pb.ResponseHeader{Revision: 12}, WatchId: -1, Created: true, Canceled: true, CancelReason: reason,
			})
			require.Equal(t, over, err != nil, "%v", err)
			require.ErrorContains(t, d.ready(t.Context(), l), reason)
		})
	}
}

// If the cluster refuses the stream for good, watches that wait for it say why. All others are set again.
func TestRefusedStream(t *testing.T) {
	for _, test := range []struct{ broke, want error }{
		{store.ErrDenied, store.ErrDenied},
		{store.ErrClosed, store.ErrClosed},
		{store.ErrUnknownOutcome, store.ErrUnavailable},
	} {
		var h heard
		d := watching()
		l := h.watch("l", "a")
		d.watches.set(l)
		d.watches.breakOff(test.broke)
		err := d.ready(t.Context(), l)
		require.ErrorIs(t, err, test.want)
		require.Equal(t, store.Refused(test.want), store.Refused(err))
		require.Equal(t, test.want == store.ErrUnavailable, err != test.broke)
	}
}

// A gateway that leaves the cluster's id out is no other cluster.
func TestAnswerWithoutTheClustersID(t *testing.T) {
	d := watching()
	for _, id := range []uint64{7, 0, 7} {
		require.True(t, d.saw(0, &pb.ResponseHeader{ClusterId: id, Revision: 10}, false))
	}
	require.EqualValues(t, 7, d.revisions.cluster)
}
