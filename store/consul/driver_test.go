package consul_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-leadership/leadership/store/engine/drivertest"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// renewed is a TTL with a check, in which a busy machine renews many sessions.
const renewed = 9 * time.Second

func TestDriver(t *testing.T) {
	t.Parallel()
	open := func(_ context.Context, delay time.Duration) (engine.Driver, error) {
		network := conformance.NewNetwork()
		network.DelayReplies(delay)
		return consul.NewDriver(consul.Config{TTL: renewed, Addresses: sharedServer(t).Addrs()[:1], Dial: network.Dial})
	}
	drivertest.Run(t, drivertest.Harness{TTL: renewed, OpenSlow: open, Open: func(context.Context) (engine.Driver, error) {
		return consul.NewDriver(consul.Config{TTL: renewed, Addresses: sharedServer(t).Addrs()[:1]})
	}})
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

// A ballot waits behind two. An operator releases its lock, and no watch reports that before both ahead are gone. The
// ballot is lost, and never first, although a released key is still listed.
func TestReleasedBallotIsNotFirst(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	for _, ahead := range []int{1, 2} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			t.Parallel()
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
	t.Parallel()
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

// A query is answered with an index that went back, to less or to nothing, and with a key that is missing. The store
// asks again, with pauses, and no ballot is promoted or forgotten by mistake.
func TestIndexIsSetBack(t *testing.T) {
	t.Parallel()
	for name, index := range map[string]string{"to 0": "0", "to less": "2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			election, tp := newElection(), newTap(t)
			leader := castFirst(t, open(t, consul.Config{}), election, "leader")
			acknowledged := acknowledge(t, leader, "leader")
			back := func(_ *tap, w http.ResponseWriter, _ *http.Request, _ []byte) {
				w.Header().Set("X-Consul-Index", index)
				w.Header().Set("X-Consul-LastContact", "0")
				w.WriteHeader(http.StatusNotFound)
			}
			st := open(t, consul.Config{Addresses: tp.addr(), TTL: checked})
			// Of the key that is waited for first, whichever it is, and of the next ones.
			var catches []*catch
			for range 3 {
				catches = append(catches, tp.catch(back, "GET", "_ballots", "index="))
			}
			waiter := cast(t, st, election, "waiter")
			told := make(chan store.Leader, 1)
			catches = append(catches, tp.catch(back, "GET", "index=", "/v1/kv/"+"leadership/test%20"))
			go func() {
				l, _ := storetest.Leader(soon(t), st, election, &acknowledged)
				told <- l
			}()
			for _, c := range catches[:2] {
				receive(t, c.caught, "the query")
			}
			waiting(t, waiter)
			require.Less(t, tp.Count("index="), 60, "it asks without a pause")
			require.NoError(t, leader.Withdraw(soon(t)))
			require.NoError(t, waiter.Wait(soon(t)))
			require.NoError(t, waiter.Err())
			require.Zero(t, receive(t, told, "the end of the leader"))
		})
	}
}

// A query has gone silent. A resync finds that: the waiting ballot becomes first, and the follower is told.
func TestSilentQuery(t *testing.T) {
	t.Parallel()
	election, tp := newElection(), newTap(t)
	leader := castFirst(t, open(t, consul.Config{}), election, "leader")
	acknowledged := acknowledge(t, leader, "leader")
	for range 8 {
		tp.catch(hang, "GET", "/v1/kv/", "index=")
	}
	st := open(t, consul.Config{Addresses: tp.addr(), TTL: checked})
	waiter := cast(t, st, election, "waiter")
	told := make(chan store.Leader, 1)
	go func() {
		l, _ := storetest.Leader(soon(t), st, election, &acknowledged)
		told <- l
	}()
	waiting(t, waiter)
	require.NoError(t, leader.Withdraw(soon(t)))
	require.NoError(t, waiter.Wait(soon(t)))
	require.Zero(t, receive(t, told, "the end of the leader"))
}
