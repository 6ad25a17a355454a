package consul_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/storetest"
	"github.com/go-leadership/leadership/internal/testserver"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

// `consul snapshot restore` brings back a withdrawn ballot while the store goes on renewing the session. The ballot is
// removed, with its acknowledgement, whether or not the store stands in that election.
func TestRestoreRevivesABallot(t *testing.T) {
	for _, again := range []bool{true, false} {
		t.Run(map[bool]string{true: "stands again", false: "stands no more"}[again], func(t *testing.T) {
			t.Parallel()
			srv := testserver.NewConsul(t, testserver.ConsulConfig{})
			client := operator(t, srv)
			a := open(t, consul.Config{Addresses: srv.Addrs()})
			election := newElection()
			first := castFirst(t, a, election, "withdrawn")
			acknowledge(t, first, "withdrawn")
			kept := castFirst(t, a, newElection(), "in another election")
			snapshot, _, err := client.Snapshot().Save(nil)
			require.NoError(t, err)
			defer snapshot.Close()
			require.NoError(t, first.Withdraw(soon(t)))
			if again {
				contend(t, a, election, "again")
			}
			b := open(t, consul.Config{Addresses: srv.Addrs()})
			contend(t, b, election, "other")
			eventually(t, func() bool { return len(values(t, b, election)) > 0 }, "it stands")
			began := time.Now()
			require.NoError(t, client.Snapshot().Restore(nil, snapshot))
			eventually(t, func() bool {
				list := values(t, b, election)
				leader, err := storetest.Leader(soon(t), b, election, nil)
				require.NoError(t, err)
				return len(list) > 0 && list[0] != "withdrawn" && leader.Value == list[0]
			}, "another leads")
			t.Logf("another led %v after the restore began", time.Since(began))
			require.NoError(t, kept.Err(), "the ballot that has an owner stays")
		})
	}
}

// A resignation that does not wait leaves its ballot to be removed in the background. The store's next ballot in the
// election meets it, and does not take it for a restored one.
func TestHurriedResignationIsNoRestore(t *testing.T) {
	var revived restores
	st := open(t, consul.Config{Logger: slog.New(slog.NewTextHandler(&revived, nil))})
	election := newElection()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		b := castFirst(t, st, election, "hurried")
		acknowledge(t, b, "hurried")
		_ = b.Withdraw(over)
	}
	eventually(t, func() bool { return len(values(t, st, election)) == 0 }, "all are removed")
	require.Zero(t, revived.Load(), "warnings of a restore")
}

// restores counts the warnings that a restore brought a ballot back.
type restores struct{ atomic.Int64 }

func (r *restores) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("has come back")) {
		r.Add(1)
	}
	return len(line), nil
}

// A ballot of another program on the store's session is not the store's, and stays.
func TestForeignBallotOnTheSession(t *testing.T) {
	client := operator(t, sharedServer(t))
	st := open(t, consul.Config{})
	election := newElection()
	b := castFirst(t, st, election, "own")
	session := sessionOf(t, client, election, "own")
	foreign := ackKey(election) + "/_ballots/" + session + "-0000000100000000"
	acquire(t, client, foreign, session)
	second := cast(t, st, election, "second")
	require.NoError(t, b.Withdraw(soon(t)))
	waiting(t, second)
	require.Equal(t, []string{"foreign", "second"}, values(t, st, election))
	_, err := client.KV().Delete(foreign, nil)
	require.NoError(t, err)
	require.NoError(t, second.Wait(soon(t)))
}

// Many ballots that one store casts at once meet each other, and remove none.
func TestCastsMeetEachOther(t *testing.T) {
	st := open(t, consul.Config{})
	election := newElection()
	const n = 20
	done := make(chan error, n)
	for range n {
		go func() {
			b, err := st.Cast(soon(t), election, "one of many")
			if err == nil {
				if err = b.Wait(soon(t)); err == nil {
					err = b.Withdraw(soon(t))
				}
			}
			done <- err
		}()
	}
	for range n {
		require.NoError(t, receive(t, done, "a cast"))
	}
	require.Empty(t, values(t, st, election))
}
