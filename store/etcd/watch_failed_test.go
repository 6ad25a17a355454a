package etcd

import (
	"errors"
	"testing"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// The read of a key that is to be watched fails. The watch is taken back: the engine sets another one each time.
func TestWatchWithoutAReadIsTakenBack(t *testing.T) {
	t.Parallel()
	var b between
	d, _ := opened(t, b.intercept)
	fail := func(*pb.TxnRequest) error { return errors.New("no answer") }
	b.before.Store(&fail)
	for range 3 {
		_, err := d.WatchLeader(soon(t), "x", func(engine.News) {})
		require.Error(t, err)
	}
	d.watches.mu.Lock()
	defer d.watches.mu.Unlock()
	require.Empty(t, d.watches.byID)
	require.Empty(t, d.watches.creating)
}
