package consul_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

// Whatever request or reply of a campaign is lost, one ballot stands afterwards, and it leads.
func TestCampaignLosesAMessage(t *testing.T) {
	for name, part := range map[string]string{"session": "session/create", "ballot": "_ballots", "check": "service/register"} {
		for fate, spring := range fates {
			t.Run(name+" "+fate, func(t *testing.T) {
				election, tp := newElection(), newTap(t)
				ttl := long
				if name == "check" {
					ttl = short
				}
				st := open(t, consul.Config{Addresses: tp.addr(), TTL: ttl})
				c := tp.catch(spring, "PUT", part)
				b := castFirst(t, st, election, "the only one")
				receive(t, c.caught, "the request")
				require.Equal(t, []string{"the only one"}, values(t, st, election))
				require.NoError(t, b.Withdraw(soon(t)))
				require.Empty(t, values(t, st, election))
			})
		}
	}
}

// A request for a ballot arrives late, when the ballot has been withdrawn or was given up: it casts none.
func TestLateRequestCastsNoBallot(t *testing.T) {
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

// An acknowledgement whose reply was lost can be repeated. The first request, if it arrives late, changes nothing.
func TestAcknowledgeLosesAMessage(t *testing.T) {
	for fate, spring := range fates {
		t.Run(fate, func(t *testing.T) {
			election, tp := newElection(), newTap(t)
			st := open(t, consul.Config{Addresses: tp.addr()})
			b := castFirst(t, st, election, "own")
			tp.catch(spring, "PUT", `"Verb":"set"`, "check-not-exists", election)
			_, err := b.Acknowledge(soon(t), "one")
			require.ErrorIs(t, err, store.ErrUnknownOutcome)
			leader := acknowledge(t, b, "two")
			require.Equal(t, "two", leader.Value)
			seen, err := storetest.Leader(soon(t), st, election, nil)
			require.NoError(t, err)
			require.Equal(t, leader, seen)
			require.NoError(t, b.Withdraw(soon(t)))
			seen, err = storetest.Leader(soon(t), st, election, nil)
			require.NoError(t, err)
			require.Zero(t, seen)
		})
	}
	t.Run("late", func(t *testing.T) {
		election, tp := newElection(), newTap(t)
		st := open(t, consul.Config{Addresses: tp.addr()})
		b := castFirst(t, st, election, "own")
		spring, letGo := delay(t)
		tp.catch(spring, "PUT", `"Verb":"set"`, "check-not-exists", election)
		_, err := b.Acknowledge(soon(t), "one")
		require.ErrorIs(t, err, store.ErrUnknownOutcome)
		leader := acknowledge(t, b, "two")
		require.Equal(t, 409, letGo())
		seen, err := storetest.Leader(soon(t), st, election, nil)
		require.NoError(t, err)
		require.Equal(t, leader, seen)
	})
	t.Run("late, behind the withdrawal", func(t *testing.T) {
		election, tp := newElection(), newTap(t)
		st := open(t, consul.Config{Addresses: tp.addr()})
		b := castFirst(t, st, election, "own")
		spring, letGo := delay(t)
		tp.catch(spring, "PUT", `"Verb":"set"`, "check-not-exists", election)
		_, err := b.Acknowledge(soon(t), "one")
		require.ErrorIs(t, err, store.ErrUnknownOutcome)
		require.NoError(t, b.Withdraw(soon(t)))
		require.Equal(t, 409, letGo())
		seen, err := storetest.Leader(soon(t), st, election, nil)
		require.NoError(t, err)
		require.Zero(t, seen)
	})
}

// A withdrawal is repeated until its outcome is known, and then everything is gone.
func TestWithdrawLosesAMessage(t *testing.T) {
	for fate, spring := range fates {
		t.Run(fate, func(t *testing.T) {
			election, tp := newElection(), newTap(t)
			st := open(t, consul.Config{Addresses: tp.addr()})
			b := castFirst(t, st, election, "own")
			acknowledge(t, b, "own")
			c := tp.catch(spring, "PUT", `"Verb":"delete"`, election)
			require.NoError(t, b.Withdraw(soon(t)))
			receive(t, c.caught, "the request")
			require.Empty(t, values(t, st, election))
			leader, err := storetest.Leader(soon(t), st, election, nil)
			require.NoError(t, err)
			require.Zero(t, leader)
		})
	}
}

// A withdrawal that is given up goes on in the background.
func TestWithdrawalGoesOn(t *testing.T) {
	election, tp := newElection(), newTap(t)
	st := open(t, consul.Config{Addresses: tp.addr()})
	b := castFirst(t, st, election, "own")
	tp.catch(hang, "PUT", `"Verb":"delete"`, election)
	require.ErrorIs(t, b.Withdraw(within(t, 20*time.Millisecond)), context.DeadlineExceeded)
	eventually(t, func() bool { return len(values(t, st, election)) == 0 }, "the ballot is gone")
}

// A renewal whose answer is lost is repeated, and the term goes on.
func TestRenewalLosesAMessage(t *testing.T) {
	tp := newTap(t)
	st := open(t, consul.Config{Addresses: tp.addr(), TTL: short})
	b := castFirst(t, st, newElection(), "own")
	span, held := b.Lease().Span()
	require.True(t, held)
	for _, spring := range fates {
		c := tp.catch(spring, "check/update")
		receive(t, c.caught, "the renewal")
		storetest.Renewed(t, b)
	}
	require.True(t, b.Lease().Holds(span))
}

// A request to create a session is carried out after the store has removed the session's check: it creates none.
func TestLateCreationFails(t *testing.T) {
	tp := newTap(t)
	st := open(t, consul.Config{Addresses: tp.addr(), TTL: checked})
	late, status := make(chan func() int, 1), make(chan int, 1)
	tp.catch(func(tp *tap, _ http.ResponseWriter, r *http.Request, body []byte) {
		r = r.Clone(context.WithoutCancel(r.Context()))
		late <- func() int {
			answer := httptest.NewRecorder()
			tp.forward(answer, r, body)
			return answer.Code
		}
		panic(http.ErrAbortHandler)
	}, "PUT", "session/create")
	tp.catch(func(tp *tap, w http.ResponseWriter, r *http.Request, body []byte) {
		tp.forward(w, r, body)
		status <- (<-late)()
	}, "service/deregister")
	castFirst(t, st, newElection(), "own")
	require.Equal(t, http.StatusInternalServerError, receive(t, status, "the request"))
}
