package consul_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

// If the creation of a session has no answer when the store is closed, the store removes the check, and the session goes
// with it.
func TestCloseWhileTheSessionIsCreated(t *testing.T) {
	for name, c := range map[string]struct {
		config consul.Config
		part   string
	}{
		"session with check": {consul.Config{TTL: checked}, "session/create"},
		"registration":       {consul.Config{TTL: checked}, "service/register"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tp := newTap(t)
			c.config.Addresses = tp.addr()
			st := open(t, c.config)
			var created string
			applied := make(chan struct{})
			tp.catch(func(tp *tap, _ http.ResponseWriter, r *http.Request, body []byte) {
				tp.forward(httptest.NewRecorder(), r, body)
				created = nameIn(string(body))
				close(applied)
				<-r.Context().Done()
			}, "PUT", c.part)
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

// A registration whose answer is lost is undone.
func TestRegistrationWithoutAnAnswer(t *testing.T) {
	for fate, spring := range fates {
		t.Run(fate, func(t *testing.T) {
			t.Parallel()
			tp := newTap(t)
			st := open(t, consul.Config{Addresses: tp.addr(), TTL: checked})
			var created string
			caught := tp.catch(func(tp *tap, w http.ResponseWriter, r *http.Request, body []byte) {
				created = nameIn(string(body))
				if fate == "error" {
					tp.forward(httptest.NewRecorder(), r, body)
				}
				spring(tp, w, r, body)
			}, "PUT", "service/register")
			castFirst(t, st, newElection(), "own")
			receive(t, caught.caught, "the registration")
			eventually(t, func() bool { return !left(t, created) }, "it is deregistered")
		})
	}
}

// nameIn returns the name of the session that a request creates, or registers a check for.
func nameIn(body string) string {
	i := strings.Index(body, "leadership-")
	return body[i : i+len("leadership-")+16]
}

// left reports whether there is a session or a service with this name.
func left(t *testing.T, name string) bool {
	t.Helper()
	client := operator(t, sharedServer(t))
	services, err := client.Agent().Services()
	require.NoError(t, err)
	sessions, _, err := client.Session().List(nil)
	require.NoError(t, err)
	_, found := services[name]
	for _, session := range sessions {
		found = found || session.Name == name
	}
	return found
}

func TestCloseAcceptsNoCampaignOnceBallotsAreLost(t *testing.T) {
	storetest.CloseRefusesCasts(t, func() store.Store { return open(t, consul.Config{TTL: long}) })
}
