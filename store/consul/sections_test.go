package consul_test

import (
	"bytes"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

// A process waits in more elections than it has queries for. If a leader changes, it verifies some of the keys that it
// watches, and not all of them.
func TestVerifiedKeys(t *testing.T) {
	t.Parallel()
	const elections, changes = 120, 5
	tp := newTap(t)
	var verified atomic.Int64
	tp.always(func(tp *tap, w http.ResponseWriter, r *http.Request, body []byte) {
		verified.Add(int64(bytes.Count(body, []byte(`"check-index"`)) + bytes.Count(body, []byte(`"get-or-empty"`))))
		tp.forward(w, r, body)
	}, "PUT", "/v1/txn")
	const prefix = "sections"
	holder := open(t, consul.Config{Prefix: prefix})
	many := open(t, consul.Config{Addresses: tp.addr(), Prefix: prefix})
	var leaders, waiters []store.Ballot
	for i := range elections {
		name := fmt.Sprint("many/", i)
		leaders = append(leaders, castFirst(t, holder, name, "leader"))
		waiters = append(waiters, cast(t, many, name, "waiter"))
	}
	least := int64(2 * elections)
	for i := range changes { // of all, since watches that have joined are verified at first
		i = elections - 1 - i
		waiting(t, waiters[i])
		before := verified.Load()
		require.NoError(t, leaders[i].Withdraw(soon(t)))
		require.NoError(t, waiters[i].Wait(soon(t)))
		acknowledge(t, waiters[i], "waiter")
		waiting(t, waiters[0]) // for a round
		waiting(t, waiters[0])
		waiting(t, waiters[0])
		least = min(least, verified.Load()-before)
	}
	t.Logf("%d keys are verified for a change", least)
	require.Less(t, least, int64(elections), "half of all keys: on a slow machine a change lasts some rounds")
}
