package consul_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/store/consul"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// With a lock-delay, a candidate after a leader that did not resign waits that long: the one behind it, and one that
// comes when it is gone. After a resignation none waits.
func TestLockDelay(t *testing.T) {
	const delay = 4 * time.Second
	client := operator(t, sharedServer(t))
	member := func() *consul.Store { return open(t, consul.Config{LockDelay: delay}) }
	t.Run("resigned", func(t *testing.T) {
		election := newElection()
		first, second := castFirst(t, member(), election, "1"), cast(t, member(), election, "2")
		acknowledge(t, first, "1")
		waiting(t, second)
		began := time.Now()
		require.NoError(t, first.Withdraw(soon(t)))
		require.NoError(t, second.Wait(soon(t)))
		require.Less(t, time.Since(began), delay/2)
		acknowledge(t, second, "2")
	})
	t.Run("closed", func(t *testing.T) {
		election := newElection()
		a := member()
		acknowledge(t, castFirst(t, a, election, "1"), "1")
		second := cast(t, member(), election, "2")
		began := time.Now()
		require.NoError(t, a.Close())
		require.NoError(t, second.Wait(soon(t)))
		require.Less(t, time.Since(began), delay/2)
		acknowledge(t, second, "2")
	})
	t.Run("ended", func(t *testing.T) {
		election := newElection()
		a := member()
		first := castFirst(t, a, election, "1") // it does not even acknowledge
		second, third := cast(t, member(), election, "2"), cast(t, member(), election, "3")
		began := time.Now()
		_, err := client.Session().Destroy(sessionOf(t, client, election, "1"), nil)
		require.NoError(t, err)
		lost(t, first)
		require.NoError(t, second.Withdraw(soon(t))) // while it waits: that does not start the delay again
		newcomer := cast(t, member(), election, "4")
		require.NoError(t, third.Wait(soon(t)))
		require.Greater(t, time.Since(began), delay)
		require.Less(t, time.Since(began), 2*delay)
		acknowledge(t, third, "3")
		require.NoError(t, third.Withdraw(soon(t)))
		require.NoError(t, newcomer.Wait(soon(t)))
	})
	t.Run("none behind it", func(t *testing.T) {
		election := newElection()
		castFirst(t, member(), election, "1")
		began := time.Now()
		_, err := client.Session().Destroy(sessionOf(t, client, election, "1"), nil)
		require.NoError(t, err)
		b := castFirst(t, member(), election, "2")
		require.Greater(t, time.Since(began), delay)
		acknowledge(t, b, "2")
	})
	t.Run("lock held by one who does not notice", func(t *testing.T) {
		election, session := newElection(), newSession(t, client)
		acquire(t, client, ackKey(election)+"/_lock", session)
		began := time.Now()
		castFirst(t, member(), election, "1")
		require.Greater(t, time.Since(began), delay)
	})
	t.Run("lock written by hand", func(t *testing.T) {
		election := newElection()
		_, err := client.KV().Put(&api.KVPair{Key: ackKey(election) + "/_lock"}, nil)
		require.NoError(t, err)
		b := castFirst(t, member(), election, "1")
		require.NoError(t, b.Withdraw(soon(t)))
		require.Empty(t, ballotKeys(t, client, election))
	})
	t.Run("acknowledging without one's own delay", func(t *testing.T) {
		election := newElection()
		first := castFirst(t, member(), election, "1")
		acknowledge(t, first, "1")
		second := cast(t, open(t, consul.Config{}), election, "2")
		_, err := client.Session().Destroy(sessionOf(t, client, election, "1"), nil)
		require.NoError(t, err)
		require.NoError(t, second.Wait(soon(t)))
		acknowledge(t, second, "2") // as soon as Consul allows it
	})
}
