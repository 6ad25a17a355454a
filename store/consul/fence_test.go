package consul_test

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// Writes of leaders to the datacenter that elects them.
func TestFence(t *testing.T) {
	t.Parallel()
	t.Run("WritesAreFenced", func(t *testing.T) {
		t.Parallel()
		fenced(t, sharedServer(t)).WritesAreFenced(t)
	})
	t.Run("LateWritesAreRefused", func(t *testing.T) {
		t.Parallel()
		fenced(t, sharedServer(t)).LateWritesAreRefused(t)
	})
}

func fenced(t *testing.T, server *testserver.Consul) storetest.Fenced {
	client, line := operator(t, server), &storetest.Line{}
	transport := &http.Transport{DialContext: line.Dial}
	t.Cleanup(transport.CloseIdleConnections)
	late, err := api.NewClient(&api.Config{Address: server.Addrs()[0], HttpClient: &http.Client{Transport: transport}})
	require.NoError(t, err)
	return storetest.Fenced{
		Open: func(dial func(context.Context, string, string) (net.Conn, error)) store.Store {
			return open(t, consul.Config{Addresses: server.Addrs()[:1], TTL: checked, Dial: dial})
		},
		Place: func(election string) string { return "data of " + election },
		Write: func(ctx context.Context, b store.Ballot, key, value string) error {
			return save(ctx, client, b, key, value)
		},
		Late: func(ctx context.Context, b store.Ballot, key, value string) error {
			return save(ctx, late, b, key, value)
		},
		Line: line,
		Read: func(key string) string {
			pair, _, err := client.KV().Get(key, &api.QueryOptions{RequireConsistent: true})
			require.NoError(t, err)
			require.NotNil(t, pair)
			return string(pair.Value)
		},
		Remove: func(b store.Ballot) {
			stands, err := consul.Fence(b)
			require.NoError(t, err)
			_, err = client.KV().Delete(stands.Key, nil)
			require.NoError(t, err)
		},
	}
}
