package consul_test

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// docker/leadership locks the key of an election, with the leader's name, where the store's acknowledgement is. While
// it holds the lock the key is not overwritten, and the error names the holder; afterwards the next term acknowledges.
func TestDockerLeadershipHoldsTheKey(t *testing.T) {
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

// An acknowledgement that outlived its ballot is replaced if the store has seen the ballot. Otherwise it is removed
// with its session.
func TestAcknowledgementOutlivesItsBallot(t *testing.T) {
	client := operator(t, sharedServer(t))
	election, session := newElection(), newSession(t, client)
	ballot := ackKey(election) + "/_ballots/" + session + "-a1"
	acquire(t, client, ballot, session)
	acquire(t, client, ackKey(election), session)
	second := cast(t, open(t, consul.Config{}), election, "second")
	_, err := client.KV().Delete(ballot, nil)
	require.NoError(t, err)
	third := cast(t, open(t, consul.Config{}), election, "third")
	require.NoError(t, second.Wait(soon(t)))
	require.NoError(t, second.Withdraw(soon(t)))
	require.NoError(t, third.Wait(soon(t)))
	_, err = third.Acknowledge(soon(t), "third")
	require.ErrorContains(t, err, session, "it has not seen that ballot")
	fourth := cast(t, open(t, consul.Config{}), election, "fourth")
	_, err = client.Session().Destroy(session, nil)
	require.NoError(t, err)
	acknowledge(t, third, "third")

	again := newSession(t, client)
	require.NoError(t, third.Withdraw(soon(t)))
	require.NoError(t, fourth.Wait(soon(t)))
	acquire(t, client, ballot+again, again) // not a ballot: its name is that of another session
	acquire(t, client, ackKey(election), again)
	_, err = fourth.Acknowledge(soon(t), "fourth")
	require.ErrorContains(t, err, again)
}

// The next in line replaces the acknowledgement of a candidate that stood ahead of it.
func TestSuccessorReplacesTheAcknowledgement(t *testing.T) {
	client := operator(t, sharedServer(t))
	election, session := newElection(), newSession(t, client)
	ballot := ackKey(election) + "/_ballots/" + session + "-a1"
	acquire(t, client, ballot, session)
	acquire(t, client, ackKey(election), session)
	second := cast(t, open(t, consul.Config{}), election, "second")
	_, err := client.KV().Delete(ballot, nil)
	require.NoError(t, err)
	require.NoError(t, second.Wait(soon(t)))
	acknowledge(t, second, "second")
}
