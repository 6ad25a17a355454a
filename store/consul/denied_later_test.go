package consul_test

import (
	"net/http"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

// A ballot that the store may not remove, for a TTL, ends with its session, so that no other waits for it for ever.
func TestRemovalIsDenied(t *testing.T) {
	t.Parallel()
	election, tp := newElection(), newTap(t)
	tp.always(answer(http.StatusForbidden, "Permission denied: token lacks permission 'key:write'"), "/v1/txn", `"delete`)
	b := castFirst(t, open(t, consul.Config{Addresses: tp.addr(), TTL: short}), election, "own")
	waiter := cast(t, open(t, consul.Config{}), election, "waiter")
	require.ErrorIs(t, b.Withdraw(soon(t)), store.ErrDenied)
	require.NoError(t, waiter.Wait(soon(t)))
}

// A list without the store's own ballot, for example because Consul has left out keys that the token may not read, does
// not show who is ahead.
func TestListWithoutTheOwnBallot(t *testing.T) {
	t.Parallel()
	election, tp := newElection(), newTap(t)
	st := open(t, consul.Config{})
	leader, second := castFirst(t, st, election, "leader"), cast(t, st, election, "second")
	third := cast(t, open(t, consul.Config{Addresses: tp.addr()}), election, "third")
	waiting(t, third)
	filtered := tp.catch(func(tp *tap, w http.ResponseWriter, r *http.Request, body []byte) {
		w.Header().Set("X-Consul-Index", "1000000")
		answer(http.StatusOK, "[]")(tp, w, r, body)
	}, http.MethodGet, "recurse", "consistent", "_ballots")
	require.NoError(t, second.Withdraw(soon(t)))
	receive(t, filtered.caught, "the list")
	waiting(t, third)
	require.NoError(t, leader.Withdraw(soon(t)))
	require.NoError(t, third.Wait(soon(t)))
}
