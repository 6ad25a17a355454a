package etcd

import (
	"context"
	"net"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"
	"google.golang.org/grpc"
)

// Writes of leaders to the cluster that elects them.
func TestFence(t *testing.T) {
	t.Parallel()
	t.Run("WritesAreFenced", func(t *testing.T) { fenced(t).WritesAreFenced(t) })
	t.Run("LateWritesAreRefused", func(t *testing.T) { fenced(t).LateWritesAreRefused(t) })
}

func fenced(t *testing.T) storetest.Fenced {
	client, line := operator(t), &storetest.Line{}
	late := connect(t, clientv3.Config{
		Endpoints: sharedServer(t).Addrs(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return line.Dial(ctx, "tcp", address)
		})},
	})
	_, err := late.Get(soon(t), "connected")
	require.NoError(t, err)
	return storetest.Fenced{
		Open: func(dial func(context.Context, string, string) (net.Conn, error)) store.Store {
			config := Config{Dial: dial}
			if dial != nil { // the test cuts it off, and waits for the end of the session
				config.TTL = middling
			}
			return open(t, config)
		},
		Place: func(election string) string { return "data of " + election },
		Write: func(ctx context.Context, b store.Ballot, key, value string) error {
			return Save(ctx, client, b, key, value)
		},
		Late: func(ctx context.Context, b store.Ballot, key, value string) error {
			return Save(ctx, late, b, key, value)
		},
		Line:   line,
		Writes: 20,
		Read: func(key string) string {
			resp, err := client.Get(soon(t), key)
			require.NoError(t, err)
			require.Len(t, resp.Kvs, 1)
			return string(resp.Kvs[0].Value)
		},
		Remove: func(b store.Ballot) {
			stands, err := Fence(b)
			require.NoError(t, err)
			resp, err := client.Delete(soon(t), string(stands.GetCompare().Key))
			require.NoError(t, err)
			require.EqualValues(t, 1, resp.Deleted)
		},
	}
}

// A client with a prefix of its own compares another key, and is refused.
func TestFenceUnderAnotherPrefix(t *testing.T) {
	t.Parallel()
	client := operator(t)
	client.KV = namespace.NewKV(client.KV, "prefix/")
	b := castFirst(t, open(t, Config{}), newElection(), "own")
	require.ErrorIs(t, Save(soon(t), client, b, "data", "value"), store.ErrLost)
}
