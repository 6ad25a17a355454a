package etcd

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// A slow cluster still answers: while no request is answered, the time that a request may take doubles.
func TestSlowClusterIsWaitedFor(t *testing.T) {
	t.Parallel()
	var slow atomic.Bool
	d, _ := opened(t, func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		if slow.Load() {
			select {
			case <-time.After(1500 * time.Millisecond):
			case <-ctx.Done():
			}
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	})
	read := func() error {
		_, _, err := d.read(soon(t), nil, clientv3.OpGet("x"))
		return err
	}
	d.config.TTL = 2 * time.Second // a request is given up after a second
	slow.Store(true)
	require.ErrorIs(t, read(), store.ErrUnknownOutcome)
	storetest.Eventually(t, func() bool { return read() == nil }, "an answer")
}
