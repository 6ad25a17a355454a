package etcd_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// guarded is a server with authentication, and root's client. Passwords are checked with low cost, since every token
// needs a check.
func guarded(t *testing.T, extra ...string) (*testserver.Etcd, *clientv3.Client) {
	t.Helper()
	server := testserver.NewEtcd(t, testserver.EtcdConfig{Auth: true, Extra: append(append(fast, "--bcrypt-cost=4"), extra...)})
	return server, connect(t, clientv3.Config{Endpoints: server.Addrs(), Username: "root", Password: server.RootPassword()})
}

// user is a configuration for a user that may read and write below leadership/.
func user(t *testing.T, server *testserver.Etcd, name string) etcd.Config {
	t.Helper()
	require.NoError(t, server.AddUser(soon(t), name, secret, "leadership/"))
	return etcd.Config{Endpoints: server.Addrs(), User: name, Password: secret, TTL: ttl}
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

// A role on the prefix is enough for candidates, and permission to read the prefix for followers.
func TestAuth(t *testing.T) {
	t.Parallel()
	server, root := guarded(t)
	election := newElection()
	config := user(t, server, "ann")
	config.TTL = long
	addReader(t, root, "reader")
	reader := config
	reader.User = "reader"
	first := contend(t, open(t, config), election, "first")
	receive(t, first.Terms, "the first leads")
	second := contend(t, open(t, config), election, "second")
	follower := open(t, reader)
	leader, err := storetest.Leader(soon(t), follower, election, nil)
	require.NoError(t, err)
	require.Equal(t, "first", leader.Value)
	eventually(t, func() bool { return len(values(t, follower, election)) == 2 }, "both stand")
	first.End()
	receive(t, second.Terms, "the second leads")
	for leader.Value != "second" {
		leader, err = storetest.Leader(soon(t), follower, election, &leader)
		require.NoError(t, err)
	}
	confirmed(t, follower, election) // what the reader knows

	// The reader may not be a candidate. Its attempt leaves nothing that the store would retry again and again.
	_, err = follower.Cast(soon(t), election, "reader")
	require.ErrorIs(t, err, store.ErrDenied)
	require.ErrorContains(t, err, "cast in election")
	require.Equal(t, []string{"second"}, values(t, follower, election))
	c := contend(t, follower, election, "reader")
	eventually(t, func() bool { return len(c.Errors()) > 0 }, "the hook is told")
	require.ErrorIs(t, c.Errors()[0], store.ErrDenied)
	c.End()

	// A user may not read or write below another prefix.
	config.Prefix = "other"
	stranger := open(t, config)
	for op, call := range map[string]func(ctx context.Context) error{
		"cast":             func(ctx context.Context) error { _, err := stranger.Cast(ctx, election, "x"); return err },
		"read the leader":  func(ctx context.Context) error { _, err := storetest.Leader(ctx, stranger, election, nil); return err },
		"list the ballots": func(ctx context.Context) error { _, err := stranger.Ballots(ctx, election); return err },
		"read the leader ": func(ctx context.Context) error {
			_, err := storetest.Leader(ctx, stranger, election, &store.Leader{Value: "x"})
			return err
		},
	} {
		err := call(soon(t))
		require.ErrorIs(t, err, store.ErrDenied, op)
		require.ErrorContains(t, err, strings.TrimSpace(op)+" in election")
		require.NotContains(t, err.Error(), secret)
	}
	_, err = stranger.Elections(soon(t))
	require.ErrorIs(t, err, store.ErrDenied)
	require.ErrorContains(t, err, "list the elections")
	listed, err := follower.Elections(soon(t))
	require.NoError(t, err)
	require.Equal(t, []string{election}, listed)
}

// Wrong or missing credentials are reported at once.
func TestAuthWrong(t *testing.T) {
	t.Parallel()
	server, _ := guarded(t)
	config := user(t, server, "ann")
	for name, change := range map[string]func(c *etcd.Config){
		"wrong password": func(c *etcd.Config) { c.Password = "wrong-" + secret },
		"no such user":   func(c *etcd.Config) { c.User = "bob" },
		"no user":        func(c *etcd.Config) { c.User, c.Password = "", "" },
	} {
		t.Run(name, func(t *testing.T) {
			config := config
			config.TTL = long // longer than the test waits: what is not reported at once is not reported
			change(&config)
			st := open(t, config)
			ctx := within(t, long/2)
			_, err := st.Cast(ctx, "a", "x")
			require.ErrorIs(t, err, store.ErrDenied)
			require.NotContains(t, err.Error(), secret)
			require.ErrorContains(t, err, config.User)
			_, err = storetest.Leader(ctx, st, "a", nil)
			require.ErrorIs(t, err, store.ErrDenied)
			_, err = storetest.Leader(ctx, st, "a", &store.Leader{Value: "x"})
			require.ErrorIs(t, err, store.ErrDenied)
			_, err = st.Ballots(ctx, "a")
			require.ErrorIs(t, err, store.ErrDenied)
			require.NoError(t, st.Close())
		})
	}
}

// A user does no harm if the cluster has no authentication.
func TestAuthNotEnabled(t *testing.T) {
	t.Parallel()
	castFirst(t, open(t, etcd.Config{User: "ann", Password: secret}), newElection(), "own")
}

// Tokens that expire every second do no harm: the lease is renewed, the waiter's watch works, and a broken stream is
// opened with another token.
func TestAuthTokenExpires(t *testing.T) {
	t.Parallel()
	server, root := guarded(t, "--auth-token-ttl=1")
	election := newElection()
	config := user(t, server, "ann")
	config.TTL = 10 * time.Second // each renewal might need another token first
	st := open(t, config)
	b := castFirst(t, st, election, "first")
	waiter := cast(t, open(t, config), election, "waiter")
	follower := open(t, config)
	span, ok := b.Lease().Span()
	require.True(t, ok)
	start := time.Now()
	eventually(t, func() bool { return b.Lease().Last().Sent.Sub(start) > 2*config.TTL }, "renewals for two TTLs")
	require.True(t, b.Lease().Holds(span))
	leader := acknowledge(t, b, "first")
	seen, err := storetest.Leader(soon(t), follower, election, &store.Leader{})
	require.NoError(t, err)
	require.Equal(t, leader, seen)
	require.NoError(t, b.Withdraw(soon(t)))
	require.NoError(t, waiter.Wait(soon(t)))
	require.NoError(t, server.Member(0).Stop())
	require.NoError(t, server.Member(0).Start(soon(t)))
	acknowledge(t, waiter, "waiter")
	last := cast(t, st, election, "last")
	_, err = root.Delete(soon(t), ballotKeys(election), clientv3.WithPrefix())
	require.NoError(t, err)
	lost(t, waiter)
	lost(t, last)
}

// A leader loses its permission: it stops, is told why, and does not block the others.
func TestAuthTakenAway(t *testing.T) {
	t.Parallel()
	for name, takeAway := range map[string]func(ctx context.Context, root *clientv3.Client) error{
		"the role": func(ctx context.Context, root *clientv3.Client) error {
			_, err := root.UserRevokeRole(ctx, "ann", "ann")
			return err
		},
		"the user": func(ctx context.Context, root *clientv3.Client) error {
			_, err := root.UserDelete(ctx, "ann")
			return err
		},
		"the password": func(ctx context.Context, root *clientv3.Client) error {
			_, err := root.UserChangePassword(ctx, "ann", "another")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, root := guarded(t, "--auth-token-ttl=1")
			election := newElection()
			var log logged
			config := user(t, server, "ann")
			config.Logger, config.TTL = log.logger(), middling
			other := user(t, server, "bob")
			other.TTL = middling
			first := contend(t, open(t, config), election, "first")
			term := receive(t, first.Terms, "the first leads")
			waiting := contend(t, open(t, config), election, "waiting")
			second := contend(t, open(t, other), election, "second")
			eventually(t, func() bool { return len(values(t, second.Store, election)) == 3 }, "all stand")
			require.NoError(t, takeAway(soon(t), root))
			receive(t, term.Context().Done(), "the end of the term")
			for _, c := range []*contender{first, waiting} {
				eventually(t, func() bool {
					return slices.ContainsFunc(c.Errors(), func(err error) bool { return errors.Is(err, store.ErrDenied) })
				}, "%s is told why", c.Value)
			}
			receive(t, second.Terms, "the second leads")
			eventually(t, func() bool { return len(values(t, second.Store, election)) == 1 }, "nothing is left of the others")
			eventually(t, func() bool { return log.has("denied") || log.has("invalid") }, "the log says why")
			require.Less(t, log.count(), 50, "and not at every try")
		})
	}
}
