package consul_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// A 403 is a denial if it is Consul's, and Consul could find out. Campaign reports what Consul says soon.
func TestWhatIsADenial(t *testing.T) {
	for text, denied := range map[string]bool{
		"Permission denied: token with AccessorID '1b2c' lacks permission 'session:write' on \"n1\"":           true,
		"Permission denied: anonymous token lacks permission 'session:write' on \"n1\"":                        true,
		"rpc error making call: ACL not found":                                                                 true,
		"Permission denied":                                                                                    true,
		"Permission denied: token with AccessorID 'primary-dc-down' lacks permission 'service:write' on \"l\"": false,
		"ACL system must be bootstrapped before making any requests that require authorization: ACL not found": false,
		"<html><body>Permission is denied</body></html>":                                                       false,
		"Access is restricted": false,
		"":                     false,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			tp := newTap(t)
			tp.always(answer(http.StatusForbidden, text), "PUT")
			st := open(t, consul.Config{Addresses: tp.addr()})
			began := time.Now()
			_, err := st.Cast(soon(t), newElection(), "own")
			require.Equal(t, denied, errors.Is(err, store.ErrDenied), "%v", err)
			require.Equal(t, !denied, adapter.Uncertain(err), "%v", err)
			if strings.Contains(text, "ermission denied") || strings.Contains(text, "ACL") {
				require.Less(t, time.Since(began), long, "half of what Campaign takes if it is not told")
			}
			require.NotContains(t, err.Error(), "TLS")
		})
	}
}

// Temporary denials, such as those from a cache, cost no ballot, whatever is denied.
func TestDenialsPass(t *testing.T) {
	denial := answer(http.StatusForbidden, "Permission denied: token with AccessorID '1b2c' lacks permission 'key:write' on \"x\"")
	for _, part := range []string{"check/update", "session/info", "/v1/txn", "/v1/kv/", "session/renew"} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			election, tp := newElection(), newTap(t)
			st := open(t, consul.Config{Addresses: tp.addr(), TTL: checked})
			b, waiter := castFirst(t, st, election, "own"), cast(t, st, election, "waiter")
			acknowledge(t, b, "own")
			confirmed(t, st, election) // so that something is confirmed
			span, holds := b.Lease().Span()
			require.True(t, holds)
			var last *catch
			for range 4 {
				last = tp.catch(denial, part)
			}
			tp.CloseClientConnections() // so that the watches ask again
			receive(t, last.caught, "the last denial")
			storetest.Renewed(t, b)
			confirmed(t, st, election)
			require.True(t, b.Lease().Holds(span))
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

// While the servers are away, and for some time afterwards, a client agent denies everything to a token that it does
// not know yet. The store goes on by itself when that ends.
func TestServersAreAway(t *testing.T) {
	t.Parallel()
	srv := testserver.NewConsul(t, testserver.ConsulConfig{ACL: true, Client: true})
	admin, err := api.NewClient(&api.Config{Address: srv.Addrs()[0], Token: srv.ManagementToken()})
	require.NoError(t, err)
	policy, _, err := admin.ACL().PolicyCreate(&api.ACLPolicy{Name: "candidate", Rules: mayWrite + maySession + mayRegister}, nil)
	require.NoError(t, err)
	token, _, err := admin.ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLTokenPolicyLink{{ID: policy.ID}}}, nil)
	require.NoError(t, err)
	require.NoError(t, srv.Member(0).Kill())

	st := open(t, consul.Config{Addresses: []string{srv.Client().Addr()}, Token: token.SecretID, TTL: 5 * time.Second})
	election := newElection()
	var away, denials int
	try := func(ctx context.Context) (store.Ballot, error) {
		b, err := st.Cast(ctx, election, "own")
		if err != nil {
			t.Log(err)
			require.NotContains(t, err.Error(), token.SecretID)
		}
		switch {
		case err == nil:
		case errors.Is(err, store.ErrDenied):
			denials++
		default:
			require.ErrorIs(t, err, store.ErrUnavailable)
			away++
		}
		return b, err
	}
	for away == 0 {
		_, err := try(soon(t))
		require.Error(t, err)
	}
	run := contend(t, open(t, consul.Config{Addresses: []string{srv.Client().Addr()}, Token: token.SecretID, TTL: 5 * time.Second}), newElection(), "run")
	eventually(t, func() bool { return len(run.Errors()) > 0 }, "Run tells of it")
	require.NoError(t, srv.Member(0).Start(soon(t)))
	began := time.Now()
	var b store.Ballot
	eventuallyFor(t, time.Minute, func() bool {
		b, err = try(soon(t))
		return err == nil
	}, "a ballot")
	t.Logf("a ballot %v after the server had started; %d errors that named the outage, %d denials", time.Since(began), away, denials)
	require.NoError(t, b.Wait(soon(t)))
	acknowledge(t, b, "own")
	receive(t, run.Terms, "the term of Run")
}

// eventuallyFor is eventually with a limit of its own, beyond that of an agent's caches.
func eventuallyFor(t *testing.T, limit time.Duration, f func() bool, what string) {
	t.Helper()
	require.Eventually(t, f, limit, 100*time.Millisecond, what)
}

// A datacenter that the servers don't know, or don't know yet, is named at once. That is not final.
func TestDatacenterIsUnknown(t *testing.T) {
	t.Parallel()
	tp := newTap(t)
	unknown := tp.catch(answer(http.StatusInternalServerError, "No path to datacenter"), "PUT", "session/create")
	st := open(t, consul.Config{Addresses: tp.addr()})
	_, err := st.Cast(soon(t), newElection(), "own")
	receive(t, unknown.caught, "the answer")
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "no such datacenter")
	require.False(t, store.Refused(err), "%v", err)
	castFirst(t, st, newElection(), "own")
}

// A follower goes on while the agent does not know the datacenter yet.
func TestDatacenterIsKnownLater(t *testing.T) {
	t.Parallel()
	tp := newTap(t)
	var last *catch
	for range 3 {
		last = tp.catch(answer(http.StatusInternalServerError, "No path to datacenter"), "/v1/kv/")
	}
	leader, err := storetest.Leader(soon(t), open(t, consul.Config{Addresses: tp.addr(), Datacenter: "dc1"}), newElection(), nil)
	require.NoError(t, err)
	require.Zero(t, leader)
	receive(t, last.caught, "the last request that was refused")
}
