package consul_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store/consul"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// A caller's client works like one of the store's own, and still works when the store is closed.
func TestOwnClient(t *testing.T) {
	for _, ttl := range []time.Duration{short, long} {
		transport := &http.Transport{}
		client, err := api.NewClient(&api.Config{
			Address: sharedServer(t).Addrs()[0], HttpClient: &http.Client{Transport: transport},
		})
		require.NoError(t, err)
		election := newElection()
		first, second := open(t, consul.Config{Client: client, TTL: ttl}), open(t, consul.Config{Client: client, TTL: ttl})
		leader, waiter := castFirst(t, first, election, "1"), cast(t, second, election, "2")
		acknowledge(t, leader, "1")
		waiting(t, waiter)
		require.NoError(t, first.Close())
		require.NoError(t, waiter.Wait(soon(t)))
		acknowledge(t, waiter, "2")
		require.NoError(t, second.Close())
		pair, _, err := client.KV().Get(ackKey(election), nil)
		require.NoError(t, err)
		require.Nil(t, pair)
		require.Empty(t, ballotKeys(t, client, election))
		transport.CloseIdleConnections()
	}
}
