package consul_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// docker/leadership locks the key of an election, with the leader's name, where the store's acknowledgement is. While
// it holds the lock the key is not overwritten, and the error names the holder; afterwards the next term acknowledges.
func TestDockerLeadershipHoldsTheKey(t *testing.T) {
	t.Parallel()
	client := operator(t, sharedServer(t))
	election := newElection()
	lock, err := client.LockOpts(&api.LockOptions{Key: ackKey(election), Value: []byte("old:1234")}) // as libkv's NewLock does
	require.NoError(t, err)
	_, err = lock.Lock(nil)
	require.NoError(t, err)
	held, _, err := client.KV().Get(ackKey(election), nil)
	require.NoError(t, err)

	st := open(t, consul.Config{})
	b := castFirst(t, st, election, "new:1234")
	_, err = b.Acknowledge(soon(t), "new:1234")
	require.ErrorContains(t, err, "old:1234")
	require.ErrorContains(t, err, held.Session)
	require.False(t, store.Permanent(err), "the next term may be told otherwise")
	now, _, err := client.KV().Get(ackKey(election), nil)
	require.NoError(t, err)
	require.Equal(t, held, now)
	require.NoError(t, b.Withdraw(soon(t)))

	run := contend(t, st, election, "new:1234")
	eventually(t, func() bool { return len(run.Errors()) > 0 }, "the error")
	require.ErrorContains(t, run.Errors()[0], held.Session)
	require.NoError(t, lock.Unlock()) // which leaves the key, without a lock
	receive(t, run.Terms, "the term")
	leader, err := storetest.Leader(soon(t), st, election, nil)
	require.NoError(t, err)
	require.Equal(t, "new:1234", leader.Value)
	old, err := client.LockOpts(&api.LockOptions{Key: ackKey(election), Value: []byte("old:1234")})
	require.NoError(t, err)
	_, err = old.Lock(nil)
	require.ErrorIs(t, err, api.ErrLockConflict, "what ends an old candidate")
}

// The acknowledgement of an earlier ballot that has gone is replaced, though its session goes on. What another session has
// locked is not, until the session ends.
func TestAcknowledgementOutlivesItsBallot(t *testing.T) {
	t.Parallel()
	client, election := operator(t, sharedServer(t)), newElection()
	first := castFirst(t, open(t, consul.Config{}), election, "first")
	acknowledge(t, first, "first")
	pair, _, err := client.KV().Get(ackKey(election), nil)
	require.NoError(t, err)
	require.Equal(t, uint64(0x1ead<<48)|first.Token(), pair.Flags)
	session := newSession(t, client)
	pair.Session = session // as if the first one's store had not noticed yet
	require.NoError(t, first.Withdraw(soon(t)))
	held, _, err := client.KV().Acquire(pair, nil)
	require.NoError(t, err)
	require.True(t, held)
	second := castFirst(t, open(t, consul.Config{}), election, "second")
	acknowledge(t, second, "second")

	acknowledged := func() (string, error) {
		pair, _, err := client.KV().Get(ackKey(election), nil)
		require.NoError(t, err)
		_, err = second.Acknowledge(soon(t), "again")
		return pair.Session, err
	}
	_, err = client.KV().Delete(ackKey(election), nil)
	require.NoError(t, err)
	acquire(t, client, ackKey(election), session)
	holder, err := acknowledged()
	require.Equal(t, session, holder)
	require.ErrorContains(t, err, session)
	_, _, err = client.KV().Release(&api.KVPair{Key: ackKey(election), Session: session}, nil)
	require.NoError(t, err)
	_, err = acknowledged()
	require.NoError(t, err)
}

// A plain value at the acknowledgement's key is replaced. What another program has written over an acknowledgement goes with
// the ballot.
func TestAcknowledgementIsInTheWay(t *testing.T) {
	t.Parallel()
	client, election := operator(t, sharedServer(t)), newElection()
	put(t, client, ackKey(election), "foreign")
	st := open(t, consul.Config{})
	b := castFirst(t, st, election, "own")
	before := acknowledge(t, b, "own")
	put(t, client, ackKey(election), "written over")
	again := acknowledge(t, b, "again")
	require.Greater(t, again.Revision, before.Revision)
	put(t, client, ackKey(election), "written over again")
	require.NoError(t, b.Withdraw(soon(t)))
	seen, err := storetest.Leader(soon(t), st, election, nil)
	require.NoError(t, err)
	require.Zero(t, seen, "the acknowledgement went with the ballot")
}

// Another program's lock has flags of its own, which look like an early token. It might lead: its key is not replaced.
func TestFlagsOfAnotherProgramAreNoToken(t *testing.T) {
	t.Parallel()
	client, election := operator(t, sharedServer(t)), newElection()
	session := newSession(t, client)
	locked, _, err := client.KV().Acquire(&api.KVPair{Key: ackKey(election), Value: []byte("other"), Flags: 1, Session: session}, nil)
	require.NoError(t, err)
	require.True(t, locked)
	b := castFirst(t, open(t, consul.Config{}), election, "own")
	_, err = b.Acknowledge(soon(t), "own")
	require.ErrorContains(t, err, session)
	now, _, err := client.KV().Get(ackKey(election), nil)
	require.NoError(t, err)
	require.Equal(t, "other", string(now.Value))
}

// Another program's session held the key, and ended. If it had a lock-delay, the key is locked as soon as that is over.
func TestAcknowledgementWaitsForALockDelay(t *testing.T) {
	t.Parallel()
	client := operator(t, sharedServer(t))
	election := newElection()
	id, _, err := client.Session().CreateNoChecks(&api.SessionEntry{Behavior: "delete", TTL: "1h", LockDelay: time.Second}, nil)
	require.NoError(t, err)
	acquire(t, client, ackKey(election), id)
	b := castFirst(t, open(t, consul.Config{}), election, "own")
	began := time.Now()
	_, err = client.Session().Destroy(id, nil)
	require.NoError(t, err)
	acknowledge(t, b, "own")
	require.Greater(t, time.Since(began), time.Second/2)
}
