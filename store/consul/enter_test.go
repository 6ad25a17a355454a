package consul_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// A request for a ballot arrives late, when the ballot has been withdrawn or was given up: it casts none.
func TestLateRequestCastsNoBallot(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, st store.Store, election string){
		"sent again and withdrawn": func(t *testing.T, st store.Store, election string) {
			require.NoError(t, castFirst(t, st, election, "own").Withdraw(soon(t)))
		},
		"given up": func(t *testing.T, st store.Store, election string) {
			_, err := st.Cast(within(t, 20*time.Millisecond), election, "own")
			require.ErrorIs(t, err, context.DeadlineExceeded)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			election, tp := newElection(), newTap(t)
			st := open(t, consul.Config{Addresses: tp.addr()})
			require.NoError(t, castFirst(t, st, newElection(), "so that there is a session").Withdraw(soon(t)))
			spring, letGo := delay(t)
			if name == "given up" {
				tp.catch(hang, "PUT", "lock", "_ballots", election)
			}
			tp.catch(spring, "PUT", "lock", "_ballots", election)
			end(t, st, election)
			eventually(t, func() bool { return tp.Count("PUT", "_void", `"Verb":"delete"`, election) > 0 }, "it was declared void")
			eventually(t, func() bool { return len(ballotKeys(t, operator(t, sharedServer(t)), election)) == 0 }, "it is gone")
			if name != "given up" {
				require.Equal(t, 409, letGo())
			}
			require.Empty(t, values(t, st, election))
			castFirst(t, st, election, "the next")
		})
	}
}

// A request to void arrives late, and changes the mark of its slot again. The next request to enter in this slot is refused,
// and the one after it makes the entry.
func TestEnterAfterALateVoid(t *testing.T) {
	t.Parallel()
	election := newElection()
	d, err := consul.NewDriver(consul.Config{Addresses: sharedServer(t).Addrs()[:1]})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	s, _, err := d.Open(soon(t))
	require.NoError(t, err)
	defer func() { require.NoError(t, s.End(soon(t), nil)) }()
	require.NoError(t, s.Void(soon(t), election, engine.Nonce{Name: "first", Slot: 3, Turn: 1}))
	mark := &api.KVPair{Key: "leadership/_void/" + s.ID() + "-3", Value: []byte("late"), Session: s.ID()}
	held, _, err := operator(t, sharedServer(t)).KV().Acquire(mark, nil)
	require.NoError(t, err)
	require.True(t, held)

	second := engine.Nonce{Name: "second", Slot: 3, Turn: 2}
	_, err = s.Enter(soon(t), election, second, "own")
	require.ErrorIs(t, err, store.ErrUnavailable)
	e, err := s.Enter(soon(t), election, second, "own")
	require.NoError(t, err)
	require.NotZero(t, e.Token)
}
