package etcd

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

const (
	// shortest is the shortest TTL that the servers grant: for tests that wait until requests have failed for a TTL.
	shortest = 2 * time.Second
	// middling is for tests that wait for the end of a session, after it has outlasted a stall or a restart.
	middling = 8 * time.Second
	// long is for all other tests: a TTL whose end none of them waits for.
	long = 30 * time.Second
)

// fast makes a server's writes spare the disk: the tests that use it are not about what survives a crash.
var fast = []string{"--unsafe-no-fsync"}

// withAuth are the flags of a server with authentication. Passwords are checked with low cost, since every token needs
// a check.
var withAuth = append([]string{"--bcrypt-cost=4"}, fast...)

// shortTokens makes the tokens of users expire every second.
const shortTokens = "--auth-token-ttl=1"

// The servers that most tests share. They grant leases of 2 s and more.
var (
	sharedServer  = storetest.Shared(testserver.StartEtcd, testserver.EtcdConfig{Extra: fast})
	sharedGuarded = storetest.Shared(testserver.StartEtcd, testserver.EtcdConfig{Auth: true, Extra: withAuth})
	sharedTokens  = storetest.Shared(testserver.StartEtcd, testserver.EtcdConfig{Auth: true, Extra: append([]string{shortTokens}, withAuth...)})
	sharedTLS     = storetest.Shared(testserver.StartEtcd, testserver.EtcdConfig{TLS: testserver.ServerTLS, Extra: fast})
	sharedMutual  = storetest.Shared(testserver.StartEtcd, testserver.EtcdConfig{TLS: testserver.MutualTLS, Extra: fast})
)

// The names under which these tests use what package storetest has for the tests of all stores.
type contender = storetest.Contender

var (
	newElection    = storetest.NewElection
	soon           = storetest.Soon
	within         = storetest.Within
	eventually     = storetest.Eventually
	cast           = storetest.Cast
	castFirst      = storetest.CastFirst
	acknowledge    = storetest.Acknowledge
	waiting        = storetest.Waiting
	lost           = storetest.Lost
	values         = storetest.Values
	contend        = storetest.Contend
	oneLeader      = storetest.OneLeader
	leaderAmong    = storetest.LeaderAmong
	requireInvalid = storetest.RequireInvalid
	openAt         = storetest.OpenURL
	confirmed      = storetest.Confirmed
	confirmedAgain = storetest.ConfirmedAgain
)

func receive[T any](t testing.TB, ch <-chan T, what string, args ...any) T {
	t.Helper()
	return storetest.Receive(t, ch, what, args...)
}

// ackKey is where an election's acknowledged value is, with the default settings.
func ackKey(election string) string { return "leadership/" + election }

// ballotKeys is what the keys of its ballots begin with.
func ballotKeys(election string) string { return ackKey(election) + "/_ballots/" }

// open opens a store that the end of the test closes. The defaults are a long TTL, and the shared server.
func open(t *testing.T, config Config) *Store {
	t.Helper()
	if config.TTL == 0 {
		config.TTL = long
	}
	if config.Client == nil && config.Endpoints == nil {
		config.Endpoints = sharedServer(t).Addrs()
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	st, err := Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// operator returns a client with which a test reads and changes keys. The default endpoint is the shared server.
func operator(t *testing.T, endpoints ...string) *clientv3.Client {
	t.Helper()
	if len(endpoints) == 0 {
		endpoints = sharedServer(t).Addrs()
	}
	return connect(t, clientv3.Config{Endpoints: endpoints})
}

func connect(t *testing.T, config clientv3.Config) *clientv3.Client {
	t.Helper()
	config.Logger, config.DialTimeout = zap.NewNop(), storetest.Watchdog
	client, err := clientv3.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// keys lists the keys with a prefix in the order of their creation.
func keys(t *testing.T, client *clientv3.Client, prefix string) []string {
	t.Helper()
	resp, err := client.Get(soon(t), prefix, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	require.NoError(t, err)
	list := []string{}
	for _, kv := range resp.Kvs {
		list = append(list, string(kv.Key))
	}
	return list
}

// ballotOf returns the key of the ballot with the value, and its lease.
func ballotOf(t *testing.T, client *clientv3.Client, election, value string) (key string, lease clientv3.LeaseID) {
	t.Helper()
	resp, err := client.Get(soon(t), ballotKeys(election), clientv3.WithPrefix())
	require.NoError(t, err)
	for _, kv := range resp.Kvs {
		if string(kv.Value) == value {
			return string(kv.Key), clientv3.LeaseID(kv.Lease)
		}
	}
	require.FailNow(t, "no ballot of "+value)
	panic("unreachable")
}

// watches returns how many watches the cluster has confirmed and was not asked to cancel.
func (s *Store) watches() int {
	s.driver.watches.mu.Lock()
	defer s.driver.watches.mu.Unlock()
	return len(s.driver.watches.byID)
}

// told returns how many of them have told what was read.
func (s *Store) told() (n int) {
	s.driver.watches.mu.Lock()
	defer s.driver.watches.mu.Unlock()
	for _, w := range s.driver.watches.byID {
		if w.revision != 0 {
			n++
		}
	}
	return n
}

// root returns root's client of a server with authentication.
func root(t *testing.T, server *testserver.Etcd) *clientv3.Client {
	t.Helper()
	return connect(t, clientv3.Config{Endpoints: server.Addrs(), Username: "root", Password: server.RootPassword()})
}

var users atomic.Int64

// user is a configuration for a new user, and its role of the same name, that may read and write below leadership/.
func user(t *testing.T, server *testserver.Etcd) Config {
	t.Helper()
	name := fmt.Sprint("user", users.Add(1))
	require.NoError(t, server.AddUser(soon(t), name, secret, "leadership/"))
	return Config{Endpoints: server.Addrs(), User: name, Password: secret, TTL: long}
}

// addReader adds a user that may only read below leadership/.
func addReader(t *testing.T, root *clientv3.Client, name string) {
	t.Helper()
	_, err := root.UserAdd(soon(t), name, secret)
	require.NoError(t, err)
	_, err = root.RoleAdd(soon(t), name)
	require.NoError(t, err)
	_, err = root.RoleGrantPermission(soon(t), name, "leadership/", "leadership0", clientv3.PermissionType(clientv3.PermRead))
	require.NoError(t, err)
	_, err = root.UserGrantRole(soon(t), name, name)
	require.NoError(t, err)
}

const secret = "s3cret: pass/word"

// logged collects what a store logs at level Warn and above.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(p))
	return len(p), nil
}

func (l *logged) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func (l *logged) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(strings.Join(l.lines, ""), text)
}

func (l *logged) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lines)
}

// begin returns a driver without a store.
func begin(config Config) (engine.Driver, error) {
	d, err := newDriver(config)
	if err != nil {
		return nil, err
	}
	d.begin()
	return d, nil
}

// begun returns a driver that the end of the test closes.
func begun(t *testing.T, config Config) *driver {
	t.Helper()
	d, err := begin(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d.(*driver)
}

// opened returns a driver on the shared server, with a prefix of its own, and a session. Requests go through the
// interceptors.
func opened(t *testing.T, interceptors ...grpc.UnaryClientInterceptor) (*driver, *session) {
	t.Helper()
	client := connect(t, clientv3.Config{
		Endpoints: sharedServer(t).Addrs(), DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(interceptors...)},
	})
	d := begun(t, Config{Client: client, Prefix: newElection(), TTL: 10 * long}) // no request is late
	s, proof, err := d.Open(soon(t))
	require.NoError(t, err)
	require.EqualValues(t, 1, proof.Connection)
	return d, s.(*session)
}

// enter enters an election.
func enter(t *testing.T, s engine.Session, election string, n engine.Nonce) engine.Entry {
	t.Helper()
	e, err := s.Enter(soon(t), election, n, "v")
	require.NoError(t, err)
	return e
}

// write writes what no session accounts for.
func write(t *testing.T, d *driver, ops ...clientv3.Op) {
	t.Helper()
	_, err := d.change(soon(t), nil, ops...)
	require.NoError(t, err)
}

// each returns an interceptor that calls f for each request. send sends the request.
func each(f func(method string, req any, send func() error) error) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		return f(method, req, func() error { return invoke(ctx, method, req, reply, cc, opts...) })
	}
}
