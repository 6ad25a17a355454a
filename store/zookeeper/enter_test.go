package zookeeper_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

// Whatever request or reply of a campaign is lost, one ballot stands afterwards, and it leads.
func TestCampaignLosesAMessage(t *testing.T) {
	t.Parallel()
	conn := operator(t)
	for name, op := range map[string]string{"create": opCreate, "list": opList, "read": opGetData} {
		for fateName, fate := range map[string]fate{"reply": loseReply, "request": loseRequest} {
			t.Run(name+" "+fateName, func(t *testing.T) {
				election := newElection()
				makePath(t, conn, dir(election))
				st, tp := openTapped(t)
				what := dir(election)
				if op == opCreate {
					what += "/" // the ballot
				}
				c := tp.catch(t, fate, op, what)
				b := castFirst(t, st, election, "the only one")
				receive(t, c.caught, "the request")
				require.Len(t, list(t, conn, dir(election)), 1)
				require.Equal(t, []string{"the only one"}, values(t, st, election))
				require.NoError(t, b.Withdraw(soon(t)))
				require.Empty(t, list(t, conn, dir(election)))
			})
		}
	}
}

// The caller gives up before the request arrives. The same session removes the ballot that it makes, and nothing is kept
// of it.
func TestCampaignGivenUpLeavesNothing(t *testing.T) {
	t.Parallel()
	conn := operator(t)
	election := newElection()
	makePath(t, conn, dir(election))
	st, tp := openTapped(t)
	witness := castFirst(t, st, newElection(), "stands as long as the session does")
	c := tp.catch(t, hold, opCreate, dir(election)+"/")
	ctx, cancel := context.WithCancel(context.Background())
	given := make(chan error, 1)
	go func() {
		_, err := st.Cast(ctx, election, "given up")
		given <- err
	}()
	receive(t, c.caught, "the request")
	cancel()
	require.ErrorIs(t, receive(t, given, "the end of the call"), context.Canceled)
	require.Empty(t, list(t, conn, dir(election)))
	c.letGo()
	later := cast(t, open(t, zookeeper.Config{}), election, "later")
	require.NoError(t, later.Wait(soon(t)), "the orphan must not block those behind it")
	eventually(t, func() bool { return len(list(t, conn, dir(election))) == 1 }, "the orphan is removed")
	require.NoError(t, witness.Err(), "not with its session")
	eventually(t, func() bool { n, err := st.Creations(soon(t)); return err == nil && n == 0 }, "nothing is kept of it")
}

// The session ends right after the ballot was created in it, before the reply came. The ballot that Campaign returns is
// one of the next session.
func TestSessionEndsDuringCampaign(t *testing.T) {
	t.Parallel()
	election := newElection()
	conn := operator(t)
	makePath(t, conn, dir(election))
	st, tp := openTapped(t)
	before := castFirst(t, st, newElection(), "in the first session")
	c := tp.catch(t, holdReply, opCreate, dir(election)+"/")
	done := make(chan error, 1)
	var b store.Ballot
	go func() {
		var err error
		b, err = st.Cast(soon(t), election, "ours")
		done <- err
	}()
	receive(t, c.arrived, "the reply")
	tp.endSession(t, sharedServer(t).Addrs()[0])
	c.letGo()
	require.NoError(t, receive(t, done, "the campaign"))
	lost(t, before)
	require.NoError(t, b.Wait(soon(t)))
	eventually(t, func() bool { _, ok := b.Lease().Span(); return ok }, "the lease of the new session")
	require.Equal(t, []string{"ours"}, values(t, st, election))
}

// Void waits for the outcome of a request to enter that is on its way.
func TestVoidWaitsForTheCreation(t *testing.T) {
	t.Parallel()
	election := newElection()
	conn := operator(t)
	makePath(t, conn, dir(election))
	st, tp := openTapped(t)
	session, err := st.Session(soon(t))
	require.NoError(t, err)
	late := tp.catch(t, hold, opCreate, dir(election)+"/")
	nonce := engine.Nonce{Name: "nonce"}
	ctx, cancel := context.WithCancel(soon(t))
	entered := make(chan error, 1)
	go func() {
		_, err := session.Enter(ctx, election, nonce, "own")
		entered <- err
	}()
	receive(t, late.caught, "the request")
	cancel()
	require.ErrorIs(t, receive(t, entered, "the end of the call"), store.ErrUnknownOutcome)
	voided := make(chan error, 1)
	go func() { voided <- session.Void(soon(t), election, nonce) }()
	require.Never(t, func() bool { return len(voided) > 0 }, 300*time.Millisecond, 10*time.Millisecond)
	late.letGo()
	require.NoError(t, receive(t, voided, "the end of the entry"))
	require.Empty(t, list(t, conn, dir(election)))
}
