package consul

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// While there is a session and nothing is watched, Confirm asks for a key that a candidate may read. Without a session,
// Confirm asks for nothing.
func TestConfirmWithoutWatches(t *testing.T) {
	var reads, others atomic.Int64
	d := driverOf(t, leastSessionTTL, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/v1/kv/leadership/"):
			reads.Add(1)
		case strings.HasPrefix(r.URL.Path, "/v1/kv/"):
			others.Add(1)
		}
		w.Header().Set("X-Consul-Index", "7")
		_, _ = w.Write([]byte(answerTo(r)))
	})
	asks := func(session bool) {
		t.Helper()
		before := reads.Load()
		err := d.Confirm(t.Context())
		require.Equal(t, session, reads.Load() == before+1)
		if !session {
			require.ErrorIs(t, err, errIdle)
		}
	}
	asks(false)
	s, _, err := d.Open(t.Context())
	require.NoError(t, err)
	asks(true)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, s.Keep(ended, func(engine.Proof) {}))
	require.NoError(t, s.End(t.Context(), nil))
	asks(false)
	require.Zero(t, others.Load())
}

// The ballots of a session do not outlive it in the driver.
func TestOpenForgetsTheBallotsOfTheLastSession(t *testing.T) {
	d := driverOf(t, leastSessionTTL, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(answerTo(r))) })
	d.behind["nearest"] = behind{key: "own"}
	_, _, err := d.Open(t.Context())
	require.NoError(t, err)
	require.Empty(t, d.behind)
}
