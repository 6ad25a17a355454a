package consul_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// Temporary denials, such as those from a cache, cost no ballot, whatever is denied.
func TestDenialsPass(t *testing.T) {
	t.Parallel()
	denial := answer(http.StatusForbidden, "Permission denied: token with AccessorID '1b2c' lacks permission 'key:write' on \"x\"")
	for _, part := range []string{"check/update", "/v1/txn", "/v1/kv/", "session/renew"} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			meter := stall.Watch(t)
			var election string
			var st *consul.Store
			var b, waiter store.Ballot
			for holds := false; !holds; {
				stalled, tp := meter.Stalled(), newTap(t)
				election, st = newElection(), open(t, consul.Config{Addresses: tp.addr(), TTL: checked})
				b, waiter = castFirst(t, st, election, "own"), cast(t, st, election, "waiter")
				acknowledge(t, b, "own")
				confirmed(t, st, election) // so that something is confirmed
				span, held := b.Lease().Span()
				var last *catch
				for range 4 {
					last = tp.catch(denial, part)
				}
				tp.CloseClientConnections() // so that the watches ask again
				receive(t, last.caught, "the last denial")
				renewedOrOver(t, b)
				confirmed(t, st, election)
				holds = held && b.Lease().Holds(span)
				if !holds { // after a stall this says nothing
					require.Greater(t, meter.Stalled()-stalled, checked/12, "the lease is over: %v", meter)
				}
			}
			require.NoError(t, waiter.Err())
			waiting(t, waiter)
			require.NoError(t, b.Withdraw(soon(t)))
			require.NoError(t, waiter.Wait(soon(t)))
			leader, err := storetest.Leader(soon(t), st, election, nil)
			require.NoError(t, err)
			require.Zero(t, leader)
		})
	}
}

const (
	mayWrite    = `key_prefix "leadership/" { policy = "write" }`
	mayRead     = `key_prefix "leadership/" { policy = "read" }`
	maySession  = ` session_prefix "" { policy = "write" }`
	mayRegister = ` service "leadership" { policy = "write" }`
)

// The store names what a token may not do, at once, and leaves nothing behind.
func TestACL(t *testing.T) {
	t.Parallel()
	srv := testserver.NewConsul(t, testserver.ConsulConfig{ACL: true})
	token := func(rules string) string {
		token, err := srv.CreateToken(soon(t), rules)
		require.NoError(t, err)
		return token
	}
	config := func(token string, ttl time.Duration) consul.Config {
		return consul.Config{Addresses: srv.Addrs(), Token: token, TTL: ttl}
	}
	for name, c := range map[string]struct {
		rules, missing string
		ttl            time.Duration
	}{
		"no session": {mayWrite, "session:write", long},
		"no key":     {maySession, "key:write", long},
		"read alone": {mayRead + maySession, "key:write", long},
		"no service": {mayWrite + maySession, "service:write", checked},
		"nothing":    {`node "x" { policy = "read" }`, "session:write", long},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secret := token(c.rules)
			st := open(t, config(secret, c.ttl))
			began := time.Now()
			_, err := st.Cast(soon(t), newElection(), "own")
			require.ErrorIs(t, err, store.ErrDenied)
			require.ErrorContains(t, err, c.missing)
			require.NotContains(t, err.Error(), secret)
			require.Less(t, time.Since(began), c.ttl, "it has retried for two TTLs")
			requireTold(t, contend(t, st, newElection(), "own"))
		})
	}
	t.Run("unknown token", func(t *testing.T) {
		t.Parallel()
		const wrong = "99999999-2222-3333-4444-555555555555"
		st := open(t, config(wrong, long))
		_, err := st.Cast(soon(t), newElection(), "own")
		require.ErrorIs(t, err, store.ErrDenied)
		require.NotContains(t, err.Error(), wrong)
		_, err = storetest.Leader(soon(t), st, newElection(), nil)
		require.ErrorIs(t, err, store.ErrDenied)
		_, err = storetest.Leader(soon(t), st, newElection(), &store.Leader{})
		require.ErrorIs(t, err, store.ErrDenied)
	})
	t.Run("no token", func(t *testing.T) {
		t.Parallel()
		_, err := open(t, config("", long)).Cast(soon(t), newElection(), "own")
		require.ErrorIs(t, err, store.ErrDenied)
	})
	t.Run("no list", func(t *testing.T) { // Consul's answer to a list is empty then, without an error
		t.Parallel()
		election := newElection()
		castFirst(t, open(t, config(token(mayWrite+maySession), long)), election, "own")
		_, err := open(t, config(token(`key_prefix "other/" { policy = "read" }`), long)).Ballots(soon(t), election)
		require.ErrorIs(t, err, store.ErrDenied)
		ballots, err := open(t, config(token(mayRead), long)).Ballots(soon(t), election)
		require.NoError(t, err)
		require.Len(t, ballots, 1)
		_, err = open(t, config(token(`key_prefix "other/" { policy = "read" }`), long)).Elections(soon(t))
		require.ErrorIs(t, err, store.ErrDenied)
		_, err = open(t, config("", long)).Elections(soon(t))
		require.ErrorIs(t, err, store.ErrDenied)
		listed, err := open(t, config(token(mayRead), long)).Elections(soon(t))
		require.NoError(t, err)
		require.Contains(t, listed, election)
	})
	t.Run("enough", func(t *testing.T) {
		t.Parallel()
		for _, ttl := range []time.Duration{checked, long} {
			election := newElection()
			st := open(t, config(token(mayWrite+maySession+mayRegister), ttl))
			follower := open(t, config(token(mayRead), checked))
			told := make(chan store.Leader, 1)
			go func() {
				l, _ := storetest.Leader(soon(t), follower, election, &store.Leader{})
				told <- l
			}()
			b := castFirst(t, st, election, "own")
			leader := acknowledge(t, b, "own")
			require.Equal(t, leader, receive(t, told, "the news"))
			go func() {
				_, _ = storetest.Leader(soon(t), follower, election, &leader)
				told <- store.Leader{}
			}()
			confirmed(t, follower, election) // reading is enough
			require.NoError(t, b.Withdraw(soon(t)))
			receive(t, told, "the end of the leader")
		}
	})
	t.Run("deleted while it leads", func(t *testing.T) {
		t.Parallel()
		secret := token(mayWrite + maySession + mayRegister)
		run := contend(t, open(t, config(secret, short)), newElection(), "own")
		term := receive(t, run.Terms, "the term")
		admin, err := api.NewClient(&api.Config{Address: srv.Addrs()[0], Token: srv.ManagementToken()})
		require.NoError(t, err)
		self, _, err := admin.ACL().TokenReadSelf(&api.QueryOptions{Token: secret})
		require.NoError(t, err)
		_, err = admin.ACL().TokenDelete(self.AccessorID, nil)
		require.NoError(t, err)
		receive(t, term.Context().Done(), "the end of the term")
		require.NotContains(t, fmt.Sprint(requireTold(t, run), run.Errors()), secret)
	})
}

// requireTold waits until Run has reported a denial, by its hook or its end.
func requireTold(t *testing.T, run *storetest.Contender) error {
	t.Helper()
	var err error
	eventually(t, func() bool {
		for _, err = range run.Errors() {
			if errors.Is(err, store.ErrDenied) {
				return true
			}
		}
		select {
		case err = <-run.Ended:
			return errors.Is(err, store.ErrDenied)
		default:
			return false
		}
	}, "the denial is told")
	return err
}
