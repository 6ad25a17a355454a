package consul_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// A ballot waits behind two. An operator releases its lock, and no watch reports that before both ahead are gone. The
// ballot is lost, and never first, although a released key is still listed.
func TestReleasedBallotIsNotFirst(t *testing.T) {
	client, tp, election := operator(t, sharedServer(t)), newTap(t), newElection()
	ahead := open(t, consul.Config{})
	first, second := castFirst(t, ahead, election, "first"), cast(t, ahead, election, "second")
	session := sessionOf(t, client, election, "first")
	tp.always(func(tp *tap, w http.ResponseWriter, r *http.Request, body []byte) {
		if strings.Contains(r.URL.Path, session) {
			tp.forward(w, r, body)
		} else {
			hang(tp, w, r, body)
		}
	}, "GET", "_ballots/", "index=")
	third := cast(t, open(t, consul.Config{Addresses: tp.addr(), TTL: time.Hour}), election, "third")
	waiting(t, third)
	for _, p := range ballotKeys(t, client, election) {
		if p.Session != session {
			ok, _, _, err := client.KV().Txn(api.KVTxnOps{{Verb: api.KVUnlock, Key: p.Key, Session: p.Session}}, nil)
			require.NoError(t, err)
			require.True(t, ok)
		}
	}
	require.NoError(t, first.Withdraw(soon(t)))
	require.NoError(t, second.Withdraw(soon(t)))
	require.ErrorIs(t, third.Wait(soon(t)), store.ErrLost, "it was first")
}

// The second in line sends no request before it leads, whether or not there was another ballot ahead when its own was
// cast: the first one's acknowledgement shows that none is left.
func TestSuccessorAsksNothing(t *testing.T) {
	for _, ahead := range []int{1, 2} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			tp, election := newTap(t), newElection()
			asked := func() int { return tp.Count("_ballots/") - tp.Count("_ballots/", "index=") }
			var leaders []store.Ballot
			for range ahead {
				leaders = append(leaders, cast(t, open(t, consul.Config{}), election, "ahead"))
			}
			second := cast(t, open(t, consul.Config{Addresses: tp.addr(), TTL: time.Hour}), election, "second")
			cast(t, open(t, consul.Config{}), election, "third")
			for i, leader := range leaders {
				require.NoError(t, leader.Wait(soon(t)))
				acknowledge(t, leader, "ahead")
				if i == ahead-1 {
					eventually(t, func() bool {
						return tp.Count("_ballots/", "recurse") > 0 && tp.Count("_ballots/", "index=") > ahead // its own, too
					}, "it knows that it is second")
					before := asked()
					require.NoError(t, leader.Withdraw(soon(t)))
					require.NoError(t, second.Wait(soon(t)))
					require.Equal(t, before, asked())
				} else {
					require.NoError(t, leader.Withdraw(soon(t)))
				}
			}
			acknowledge(t, second, "second")
		})
	}
}

// Once the queue is long, the second in line stops reading all of it at each change, and still leads.
func TestSecondOfALongQueue(t *testing.T) {
	tp, election := newTap(t), newElection()
	first := castFirst(t, open(t, consul.Config{}), election, "first")
	second := cast(t, open(t, consul.Config{Addresses: tp.addr(), TTL: time.Hour}), election, "second")
	lists := func() int { return tp.Count("_ballots/", "recurse") }
	acknowledge(t, first, "first")
	eventually(t, func() bool { return lists() > 0 }, "it reads the queue")
	others := open(t, consul.Config{})
	for range 120 {
		cast(t, others, election, "behind")
	}
	before := lists()
	for range 20 {
		cast(t, others, election, "behind")
	}
	require.LessOrEqual(t, lists(), before+1) // one may have been on its way
	require.NoError(t, first.Withdraw(soon(t)))
	require.NoError(t, second.Wait(soon(t)))
	acknowledge(t, second, "second")
}
