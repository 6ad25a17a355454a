package zookeeper_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
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

// Void waits for the outcome of a request to enter that is on its way, and leaves nothing.
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
	n, err := st.Creations(soon(t))
	require.NoError(t, err)
	require.Zero(t, n, "nothing is kept of it")
}
