package consul_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

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

// A session whose creation took longer than its lease lasts is destroyed, and another one opened: there might not be
// enough time to confirm it.
func TestSessionThatComesLate(t *testing.T) {
	tp := newTap(t)
	st := open(t, consul.Config{Addresses: tp.addr(), TTL: short})
	c := tp.catch(func(tp *tap, w http.ResponseWriter, r *http.Request, body []byte) {
		time.Sleep(short * 3 / 4) // as long as a cluster takes to elect its leader: more than the lease of two thirds
		tp.forward(w, r, body)
	}, "session/create")
	castFirst(t, st, newElection(), "own")
	receive(t, c.caught, "the request")
	require.Greater(t, tp.Count("session/create"), 1)
	eventually(t, func() bool { return tp.Count("session/destroy") == tp.Count("session/create")-1 }, "it is destroyed")
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
