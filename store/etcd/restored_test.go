package etcd_test

import (
	"errors"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// restart stops a server, does something to its data, and starts it again.
func restart(t *testing.T, m *testserver.Member, change func() error) {
	t.Helper()
	require.NoError(t, m.Stop())
	require.NoError(t, change())
	require.NoError(t, m.Start(soon(t)))
}

// advance raises the cluster's revision by n.
func advance(t *testing.T, client *clientv3.Client, n int) {
	t.Helper()
	for range n {
		_, err := client.Put(soon(t), "something else", "")
		require.NoError(t, err)
	}
}

// The server is restored from a copy of its data. Tokens go back, and candidates refuse them. Followers go on, and see
// the restored state. When the tokens have caught up candidates lead again.
func TestRestored(t *testing.T) {
	t.Parallel()
	server := testserver.NewEtcd(t, testserver.EtcdConfig{})
	client := operator(t, server.Addrs()...)
	election := newElection()
	config := etcd.Config{Endpoints: server.Addrs(), TTL: ttl}
	var log logged
	config.Logger = log.logger()
	_, err := client.Put(soon(t), ackKey("other"), "early")
	require.NoError(t, err)
	restart(t, server.Member(0), server.Member(0).SaveData)

	advance(t, client, 100)
	_, err = client.Put(soon(t), ackKey("other"), "late")
	require.NoError(t, err)
	c := contend(t, open(t, config), election, "first")
	term := receive(t, c.Terms, "the first term")
	waiter := contend(t, open(t, config), election, "waiter")
	follower := open(t, config)
	late, err := storetest.Leader(soon(t), follower, "other", nil)
	require.NoError(t, err)
	first, err := storetest.Leader(soon(t), follower, election, nil)
	require.NoError(t, err)
	require.Equal(t, "first", first.Value)
	eventually(t, func() bool { return len(values(t, follower, election)) == 2 }, "both stand")
	changed := make(chan store.Leader, 2)
	for name, prev := range map[string]store.Leader{"other": late, election: first} {
		go func() {
			leader, err := storetest.Leader(soon(t), follower, name, &prev)
			if err == nil {
				changed <- leader
			}
		}()
	}

	restart(t, server.Member(0), server.Member(0).RestoreData)
	start := time.Now()
	receive(t, term.Context().Done(), "the end of the term")
	seen := map[string]bool{}
	for range 2 {
		seen[receive(t, changed, "the restored state").Value] = true
	}
	require.Equal(t, map[string]bool{"early": true, "": true}, seen)
	require.Less(t, time.Since(start), 10*time.Second, "max(TTL, 5 s), with what a busy machine adds")
	confirmed(t, follower, election) // what the follower knows
	eventually(t, func() bool { return log.has("gone back") }, "the log tells")
	refused := func(c *contender) bool {
		for _, err := range c.Errors() {
			if errors.Is(err, leadership.ErrTokenRegressed) {
				return true
			}
		}
		return false
	}
	eventually(t, func() bool { return refused(c) && refused(waiter) }, "tokens that went back are refused")
	require.Empty(t, c.Terms)
	require.Empty(t, waiter.Terms)

	advance(t, client, 300)
	again := leaderAmong(t, c, waiter)
	require.Greater(t, receive(t, again.Terms, "a term").Token(), term.Token())
	require.Less(t, log.count(), 60)
}
