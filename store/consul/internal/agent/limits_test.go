package agent

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A first agent that does not answer is left before the session is opened.
func TestFirstAgentIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgents(t, []string{"a", "b"}, func(address string, _ *http.Request) bool { return address == "b" })
		began := time.Now()
		require.Error(t, a.client.Ready(t.Context()))
		require.Equal(t, time.Hour/2, time.Since(began), "half of its TTL")
		a.dials("a")
		_ = a.client.Ready(t.Context())
		a.dials("b")
	})
}

// Whether its caller's limit or its own ends a request first, the cause is the same.
func TestNoAnswerInTime(t *testing.T) {
	for _, limit := range []time.Duration{RequestLimit - 1, RequestLimit, RequestLimit + 1} {
		synctest.Test(t, func(t *testing.T) {
			a := newAgents(t, []string{"a"}, func(string, *http.Request) bool { return false })
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, err := a.client.Get(ctx, "key")
			require.ErrorContains(t, err, "no answer in time")
		})
	}
}

// What is not set is not in a request: the library's client has something in its place.
func TestRequestsHaveNothingThatIsNotSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgents(t, []string{"a"}, func(_ string, req *http.Request) bool {
			if req.Header.Get("X-Consul-Token") != "" || req.URL.RawQuery != "" {
				t.Errorf("%v %v", req.URL, req.Header)
			}
			return true
		})
		require.NoError(t, a.ask(time.Second))
	})
}
