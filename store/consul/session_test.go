package consul_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// If the creation of a session has no answer when the store is closed, the store removes the check, and the session goes
// with it.
func TestCloseWhileTheSessionIsCreated(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"session/create", "service/register"} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			tp := newTap(t)
			st := open(t, consul.Config{Addresses: tp.addr(), TTL: checked})
			var created string
			applied := make(chan struct{})
			tp.catch(func(tp *tap, _ http.ResponseWriter, r *http.Request, body []byte) {
				tp.forward(httptest.NewRecorder(), r, body)
				created = nameIn(string(body))
				close(applied)
				<-r.Context().Done()
			}, "PUT", part)
			done := make(chan error, 1)
			go func() {
				_, err := st.Cast(context.Background(), newElection(), "own")
				done <- err
			}()
			receive(t, applied, "the request")
			require.True(t, left(t, created), "it was carried out")
			began := time.Now()
			require.NoError(t, st.Close())
			t.Logf("Close took %v", time.Since(began))
			require.Error(t, receive(t, done, "the end of Campaign"))
			require.False(t, left(t, created))
		})
	}
}

// A request to create a session is carried out after the store has removed the session's check: it creates none.
func TestLateCreationFails(t *testing.T) {
	t.Parallel()
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

// Something ends a session with a check. The holder learns of it by its watches: no confirmation of the session is answered
// meanwhile. The holder casts anew, and the session's service is removed. For operators who destroy sessions or delete
// ballots see TestEndsEarly of package all.
func TestSessionEndsEarly(t *testing.T) {
	t.Parallel()
	client := operator(t, sharedServer(t))
	for name, end := range map[string]func(session *api.SessionEntry) error{
		"service deregistered": func(s *api.SessionEntry) error { return client.Agent().ServiceDeregister(s.Name) },
		"check critical":       func(s *api.SessionEntry) error { return client.Agent().FailTTL(s.Name, "by hand") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			election := newElection()
			tp := newTap(t)
			var unanswered atomic.Bool
			for _, parts := range [][]string{{"session/info"}, {"_ballots/", "consistent"}} {
				tp.always(func(tp *tap, w http.ResponseWriter, r *http.Request, body []byte) {
					if unanswered.Load() {
						hang(tp, w, r, body)
					} else {
						tp.forward(w, r, body)
					}
				}, parts...)
			}
			st := open(t, consul.Config{Addresses: tp.addr(), TTL: checked})
			leader, second := castFirst(t, st, election, "leader"), cast(t, st, newElection(), "another election")
			acknowledge(t, leader, "leader")
			next := cast(t, open(t, consul.Config{}), election, "next")
			session, _, err := client.Session().Info(sessionOf(t, client, election, "leader"), nil)
			require.NoError(t, err)
			unanswered.Store(true)
			require.NoError(t, end(session))
			for _, b := range []store.Ballot{leader, second} {
				lost(t, b)
				require.NotContains(t, b.Err().Error(), "confirmed", "the end was noticed by a renewal only")
			}
			unanswered.Store(false)
			eventually(t, func() bool { return leader.Lease().Remaining() == 0 }, "the lease has ended")
			require.NoError(t, next.Wait(soon(t)))
			acknowledge(t, next, "next")
			require.NoError(t, leader.Withdraw(soon(t)))
			eventually(t, func() bool { return !left(t, session.Name) }, "the service of the session is gone")
			again := cast(t, st, election, "again") // with a session of its own
			require.Greater(t, again.Token(), next.Token())
			waiting(t, again)
			session, _, err = client.Session().Info(sessionOf(t, client, election, "again"), nil)
			require.NoError(t, err)
			require.NoError(t, st.Close())
			require.False(t, left(t, session.Name))
		})
	}
}
