package consul_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

const (
	// short is a TTL with a check.
	short = time.Second
	// checked is one too, with a lease that does not end before the test ends it.
	checked = 8 * time.Second
	// long is one without, which outlasts the tests that use it.
	long = 10 * time.Second
)

// The names under which these tests use what package storetest has for the tests of all stores.
var (
	newElection    = storetest.NewElection
	soon           = storetest.Soon
	within         = storetest.Within
	eventually     = storetest.Eventually
	cast           = storetest.Cast
	castFirst      = storetest.CastFirst
	acknowledge    = storetest.Acknowledge
	confirmed      = storetest.Confirmed
	waiting        = storetest.Waiting
	lost           = storetest.Lost
	values         = storetest.Values
	contend        = storetest.Contend
	requireInvalid = storetest.RequireInvalid
	openURL        = storetest.OpenURL
)

func receive[T any](t testing.TB, ch <-chan T, what string, args ...any) T {
	t.Helper()
	return storetest.Receive(t, ch, what, args...)
}

// ackKey is where an election's acknowledgement is, with the default settings.
func ackKey(election string) string { return "leadership/" + election }

// open opens a store that the end of the test closes. The defaults are the shared agent, and the TTL long.
func open(t *testing.T, config consul.Config) *consul.Store {
	t.Helper()
	if config.TTL == 0 {
		config.TTL = long
	}
	if config.Addresses == nil && config.Client == nil {
		config.Addresses = sharedServer(t).Addrs()[:1]
	}
	st, err := consul.Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// plain is the transport of operators, whose requests are not counted as a store's.
var plain = &http.Transport{}

// operator returns a client of the server's first agent, with its management token if it has one.
func operator(t *testing.T, srv *testserver.Consul) *api.Client {
	t.Helper()
	client, err := api.NewClient(&api.Config{Address: srv.Addrs()[0], HttpClient: &http.Client{Transport: plain}})
	require.NoError(t, err)
	return client
}

// ballotKeys returns the pairs below an election's ballots.
func ballotKeys(t *testing.T, client *api.Client, election string) api.KVPairs {
	t.Helper()
	pairs, _, err := client.KV().List(ackKey(election)+"/_ballots/", &api.QueryOptions{RequireConsistent: true})
	require.NoError(t, err)
	return pairs
}

// sessionOf returns the id of the session behind the ballot with a value.
func sessionOf(t *testing.T, client *api.Client, election, value string) string {
	t.Helper()
	for _, pair := range ballotKeys(t, client, election) {
		if string(pair.Value) == value {
			return pair.Session
		}
	}
	require.FailNow(t, "there is no ballot of "+value)
	return ""
}
