package consul_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

const (
	// short is a TTL with a check, of sessions that a test lets expire.
	short = 2 * time.Second
	// checked is the longest TTL with a check: a session that is renewed survives a stall of some seconds.
	checked = 9 * time.Second
	// least is the shortest TTL without a check.
	least = 10 * time.Second
	// long is one that outlasts the tests that use it.
	long = time.Minute
)

// The names under which these tests use what package storetest has for the tests of all stores.
var (
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

// newElection returns a name that no other election has, and that agents take in paths; for others see names_test.go.
func newElection() string { return strings.ReplaceAll(storetest.NewElection(), " ", "-") }

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

// put writes a key as any client can, locked or not.
func put(t *testing.T, client *api.Client, key, value string) {
	t.Helper()
	_, err := client.KV().Put(&api.KVPair{Key: key, Value: []byte(value)}, nil)
	require.NoError(t, err)
}

// newSession opens a session that the end of the test destroys.
func newSession(t *testing.T, client *api.Client) string {
	t.Helper()
	id, _, err := client.Session().CreateNoChecks(&api.SessionEntry{Behavior: "delete", TTL: "1h", LockDelay: time.Nanosecond}, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := client.Session().Destroy(id, nil)
		require.NoError(t, err)
	})
	return id
}

func acquire(t *testing.T, client *api.Client, key, session string) {
	t.Helper()
	ok, _, err := client.KV().Acquire(&api.KVPair{Key: key, Value: []byte("foreign"), Session: session}, nil)
	require.NoError(t, err)
	require.True(t, ok)
}

// nameIn returns the name of the session that a request creates, or registers a check for.
func nameIn(body string) string {
	i := strings.Index(body, "leadership-")
	return body[i : i+len("leadership-")+16]
}

// left reports whether there is a session or a service with this name.
func left(t *testing.T, name string) bool {
	t.Helper()
	client := operator(t, sharedServer(t))
	services, err := client.Agent().Services()
	require.NoError(t, err)
	sessions, _, err := client.Session().List(nil)
	require.NoError(t, err)
	_, found := services[name]
	for _, session := range sessions {
		found = found || session.Name == name
	}
	return found
}

// renewedOrOver waits until the ballot's session has been renewed by a request that was sent from now on, or its lease is over.
func renewedOrOver(t *testing.T, b store.Ballot) {
	t.Helper()
	now := time.Now()
	eventually(t, func() bool { return b.Lease().Remaining() == 0 || b.Lease().Last().Sent.After(now) }, "a renewal")
}
