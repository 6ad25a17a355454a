package consul_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

// A query is answered with an index that went back, to less or to nothing, and with a key that is missing. The store
// asks again, with pauses, and no ballot is promoted or forgotten by mistake.
func TestIndexIsSetBack(t *testing.T) {
	for name, index := range map[string]string{"to 0": "0", "to less": "2"} {
		t.Run(name, func(t *testing.T) {
			election, tp := newElection(), newTap(t)
			leader := castFirst(t, open(t, consul.Config{}), election, "leader")
			acknowledged := acknowledge(t, leader, "leader")
			back := func(_ *tap, w http.ResponseWriter, _ *http.Request, _ []byte) {
				w.Header().Set("X-Consul-Index", index)
				w.Header().Set("X-Consul-LastContact", "0")
				w.WriteHeader(http.StatusNotFound)
			}
			st := open(t, consul.Config{Addresses: tp.addr(), TTL: short})
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
	election, tp := newElection(), newTap(t)
	leader := castFirst(t, open(t, consul.Config{}), election, "leader")
	acknowledged := acknowledge(t, leader, "leader")
	for range 8 {
		tp.catch(hang, "GET", "/v1/kv/", "index=")
	}
	st := open(t, consul.Config{Addresses: tp.addr(), TTL: short})
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

// The servers are restored from a snapshot that does not contain the ballots. Tokens do not go back, since the servers
// go on counting, and nothing hangs.
func TestSnapshotIsRestored(t *testing.T) {
	srv := testserver.NewConsul(t, testserver.ConsulConfig{})
	client := operator(t, srv)
	snapshot, _, err := client.Snapshot().Save(nil)
	require.NoError(t, err)
	defer snapshot.Close()
	for _, ttl := range []time.Duration{long, short} {
		election := newElection()
		a := contend(t, open(t, consul.Config{Addresses: srv.Addrs(), TTL: ttl}), election, "a")
		term := receive(t, a.Terms, "the first term")
		st := open(t, consul.Config{Addresses: srv.Addrs(), TTL: ttl})
		b := contend(t, st, election, "b")
		eventually(t, func() bool { return len(ballotKeys(t, client, election)) == 2 }, "both stand")
		told := make(chan store.Leader, 1)
		known, err := storetest.Leader(soon(t), st, election, nil)
		require.NoError(t, err)
		go func() {
			l, _ := storetest.Leader(soon(t), st, election, &known)
			told <- l
		}()
		if ttl == long {
			require.NoError(t, client.Snapshot().Restore(nil, snapshot))
		} else {
			_, err := client.KV().DeleteTree("", nil)
			require.NoError(t, err)
		}
		receive(t, term.Context().Done(), "the end of the first term")
		var next uint64
		select {
		case term := <-a.Terms:
			next = term.Token()
		case term := <-b.Terms:
			next = term.Token()
		case <-soon(t).Done():
			require.FailNow(t, "there is no leader after the restore")
		}
		require.Greater(t, next, term.Token())
		receive(t, told, "the follower is told")
	}
}
