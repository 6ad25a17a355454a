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

// An acknowledgement that outlived its ballot is replaced if the store has seen the ballot. Otherwise it is removed
// with its session.
func TestAcknowledgementOutlivesItsBallot(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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

// A value at the acknowledgement's key is replaced if its holder can't lead: a plain value, one locked by a session
// with a ballot in the queue, and one of the store's own that another program has overwritten.
func TestAcknowledgementIsInTheWay(t *testing.T) {
	t.Parallel()
	for _, behind := range []bool{false, true} {
		t.Run(map[bool]string{false: "a plain value", true: "of one behind"}[behind], func(t *testing.T) {
			t.Parallel()
			client, election, session := operator(t, sharedServer(t)), newElection(), ""
			if behind {
				session = newSession(t, client)
				acquire(t, client, ackKey(election), session)
			} else {
				put(t, client, ackKey(election), "foreign")
			}
			st := open(t, consul.Config{})
			b := castFirst(t, st, election, "own")
			if behind {
				acquire(t, client, ackKey(election)+"/_ballots/"+session+"-b2", session)
			}
			before, err := storetest.Leader(soon(t), st, election, nil)
			require.NoError(t, err)
			leader := acknowledge(t, b, "own")
			require.Greater(t, leader.Revision, before.Revision)
			seen, err := storetest.Leader(soon(t), st, election, &before)
			require.NoError(t, err)
			require.Equal(t, leader, seen)
			put(t, client, ackKey(election), "written over")
			_, err = storetest.Leader(soon(t), st, election, &leader)
			require.NoError(t, err)
			again := acknowledge(t, b, "again")
			require.Greater(t, again.Revision, leader.Revision)
			put(t, client, ackKey(election), "written over again")
			require.NoError(t, b.Withdraw(soon(t)))
			seen, err = storetest.Leader(soon(t), st, election, nil)
			require.NoError(t, err)
			require.Zero(t, seen, "the acknowledgement went with the ballot")
		})
	}
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
