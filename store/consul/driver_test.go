package consul_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-leadership/leadership/store/engine/drivertest"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// renewed is a TTL with a check, in which a busy machine renews many sessions.
const renewed = 5 * time.Second

func TestDriver(t *testing.T) {
	t.Parallel()
	t.Run("own connections", func(t *testing.T) {
		open := func(_ context.Context, delay time.Duration) (engine.Driver, error) {
			network := conformance.NewNetwork()
			network.DelayReplies(delay)
			return consul.NewDriver(consul.Config{TTL: renewed, Addresses: sharedServer(t).Addrs()[:1], Dial: network.Dial})
		}
		drivertest.Run(t, drivertest.Harness{TTL: renewed, OpenSlow: open, Open: func(context.Context) (engine.Driver, error) {
			return consul.NewDriver(consul.Config{TTL: renewed, Addresses: sharedServer(t).Addrs()[:1]})
		}})
	})
	t.Run("caller's client", func(t *testing.T) {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		client, err := api.NewClient(&api.Config{
			Address: sharedServer(t).Addrs()[0], HttpClient: &http.Client{Transport: transport},
		})
		require.NoError(t, err)
		drivertest.Run(t, drivertest.Harness{TTL: renewed, Open: func(context.Context) (engine.Driver, error) {
			return consul.NewDriver(consul.Config{TTL: renewed, Client: client})
		}})
	})
}

// First returns the ballot that is first, as it stands when it is asked.
func TestFirst(t *testing.T) {
	config := consul.Config{Addresses: sharedServer(t).Addrs()[:1]}
	election := newElection()
	d, err := consul.NewDriver(config)
	require.NoError(t, err)
	defer d.Close()
	first := func() engine.State {
		st, err := d.(interface {
			First(ctx context.Context, election string) (engine.State, error)
		}).First(soon(t), election)
		require.NoError(t, err)
		return st
	}
	require.Zero(t, first())
	put(t, operator(t, sharedServer(t)), ackKey(election)+"/_ballots/x", "foreign")
	require.Zero(t, first(), "what is no ballot")
	for _, b := range []store.Ballot{cast(t, open(t, config), election, "1"), cast(t, open(t, config), election, "2")} {
		require.NoError(t, b.Wait(soon(t)))
		st := first()
		require.Equal(t, b.Token(), st.Token)
		key := ackKey(election) + "/_ballots/" + st.Session + "-" + st.Nonce
		p, _, err := operator(t, sharedServer(t)).KV().Get(key, nil)
		require.NoError(t, err)
		require.Equal(t, st.Token, p.CreateIndex)
		require.NoError(t, b.Withdraw(soon(t)))
	}
	require.Zero(t, first())
}
