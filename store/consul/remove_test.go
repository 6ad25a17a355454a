package consul_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// A ballot that the store may not remove, for a TTL, ends with its session, so that no other waits for it for ever.
func TestRemovalIsDenied(t *testing.T) {
	t.Parallel()
	election, tp := newElection(), newTap(t)
	tp.always(answer(http.StatusForbidden, "Permission denied: token lacks permission 'key:write'"), "/v1/txn", `"delete`)
	b := castFirst(t, open(t, consul.Config{Addresses: tp.addr(), TTL: checked}), election, "own")
	waiter := cast(t, open(t, consul.Config{}), election, "waiter")
	require.ErrorIs(t, b.Withdraw(soon(t)), store.ErrDenied)
	require.NoError(t, waiter.Wait(soon(t)))
}

// A ballot that an operator deletes or unlocks is lost at once, first in line or not.
func TestBallotIsRemoved(t *testing.T) {
	t.Parallel()
	client := operator(t, sharedServer(t))
	for name, remove := range map[string]func(pair *api.KVPair) error{
		"deleted": func(pair *api.KVPair) error { _, err := client.KV().Delete(pair.Key, nil); return err },
		"released": func(pair *api.KVPair) error {
			_, _, err := client.KV().Release(&api.KVPair{Key: pair.Key, Session: pair.Session}, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			election := newElection()
			a, b, c := open(t, consul.Config{}), open(t, consul.Config{}), open(t, consul.Config{})
			first, second, third := castFirst(t, a, election, "1"), cast(t, b, election, "2"), cast(t, c, election, "3")
			victims := map[string]store.Ballot{"1": first, "2": second}
			for _, value := range []string{"2", "1"} {
				for _, pair := range ballotKeys(t, client, election) {
					if string(pair.Value) == value {
						began := time.Now()
						require.NoError(t, remove(pair))
						lost(t, victims[value])
						require.Less(t, time.Since(began), long/6, "it waited for the next renewal")
					}
				}
				if value == "2" {
					waiting(t, third)
				}
			}
			require.NoError(t, third.Wait(soon(t)))
			require.Equal(t, []string{"3"}, values(t, c, election))
		})
	}
}
