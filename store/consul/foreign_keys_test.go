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

// put writes a key as any client can, locked or not.
func put(t *testing.T, client *api.Client, key, value string) {
	t.Helper()
	_, err := client.KV().Put(&api.KVPair{Key: key, Value: []byte(value)}, nil)
	require.NoError(t, err)
}

// newSession opens a session that the end of the test destroys.
func newSession(t *testing.T, client *api.Client) string {
	t.Helper()
	id, _, err := client.Session().CreateNoChecks(&api.SessionEntry{Behavior: "delete", TTL: "1h", LockDelay: time.Nanosecond}, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := client.Session().Destroy(id, nil)
		require.NoError(t, err)
	})
	return id
}

func acquire(t *testing.T, client *api.Client, key, session string) {
	t.Helper()
	ok, _, err := client.KV().Acquire(&api.KVPair{Key: key, Value: []byte("foreign"), Session: session}, nil)
	require.NoError(t, err)
	require.True(t, ok)
}

// Keys that are no ballots do not count, in any form: unlocked, locked by another session than their name says, or with
// a name that no ballot has.
func TestForeignKeys(t *testing.T) {
	client := operator(t, sharedServer(t))
	election, session := newElection(), newSession(t, client)
	other := newSession(t, client)
	dir := ackKey(election) + "/_ballots/"
	put(t, client, dir, "")
	put(t, client, dir+"x", "foreign")
	put(t, client, dir+session+"-unlocked", "foreign")
	acquire(t, client, dir+session+"-locked-by-another", other)
	acquire(t, client, dir+"no-session", session)
	acquire(t, client, dir+session+"-", session)
	acquire(t, client, dir+session, session)
	acquire(t, client, dir+session+"-below/another", session)
	put(t, client, ackKey(election)+"/_lock", "foreign")
	st := open(t, consul.Config{})
	b := castFirst(t, st, election, "own")
	require.Equal(t, []string{"own"}, values(t, st, election))
	acquire(t, client, dir+session+"-a1", session) // that is a ballot, whichever program made it
	second := cast(t, st, election, "second")
	require.Equal(t, []string{"own", "foreign", "second"}, values(t, st, election))
	require.NoError(t, b.Withdraw(soon(t)))
	waiting(t, second)
	_, _, err := client.KV().Release(&api.KVPair{Key: dir + session + "-a1", Session: session}, nil)
	require.NoError(t, err)
	require.NoError(t, second.Wait(soon(t)), "who gives the lock back does not stand any more")
	_, err = client.KV().DeleteTree(ackKey(election), nil)
	require.NoError(t, err)
}

// A value at the acknowledgement's key is replaced if its holder can't lead: a plain value, one locked by a session
// with a ballot in the queue, and one of the store's own that another program has overwritten.
func TestAcknowledgementIsInTheWay(t *testing.T) {
	client := operator(t, sharedServer(t))
	later := map[string]func(){}
	for name, prepare := range map[string]func(t *testing.T, election string){
		"a plain value": func(t *testing.T, election string) { put(t, client, ackKey(election), "foreign") },
		"of one behind": func(t *testing.T, election string) {
			session := newSession(t, client)
			acquire(t, client, ackKey(election), session)
			later[election] = func() { acquire(t, client, ackKey(election)+"/_ballots/"+session+"-b2", session) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			election := newElection()
			prepare(t, election)
			st := open(t, consul.Config{})
			b := castFirst(t, st, election, "own")
			if then := later[election]; then != nil {
				then()
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

// A ballot that an operator deletes or unlocks is lost at once, first in line or not.
func TestBallotIsRemoved(t *testing.T) {
	client := operator(t, sharedServer(t))
	for name, remove := range map[string]func(pair *api.KVPair) error{
		"deleted": func(pair *api.KVPair) error { _, err := client.KV().Delete(pair.Key, nil); return err },
		"released": func(pair *api.KVPair) error {
			_, _, err := client.KV().Release(&api.KVPair{Key: pair.Key, Session: pair.Session}, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
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
						require.Less(t, time.Since(began), long/4, "it waited for the next renewal")
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
