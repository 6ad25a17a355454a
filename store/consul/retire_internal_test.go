package consul

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A session that can't be destroyed delays no other, and is given up: an error for each request of one kind is no outage.
func TestSessionThatIsNotDestroyed(t *testing.T) {
	var tries, destroyed atomic.Int64
	d := driverOf(t, leastSessionTTL, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Consul-Index", "1")
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/destroy/stuck"):
			tries.Add(1)
			w.WriteHeader(http.StatusInternalServerError)
		case strings.HasSuffix(path, "/destroy/next"):
			destroyed.Add(1)
			_, _ = w.Write([]byte("true"))
		default:
			_, _ = w.Write([]byte(answerTo(r)))
		}
	})
	for _, id := range []string{"stuck", "next"} {
		d.leave(&session{driver: d, id: id})
	}
	_, _, err := d.Open(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, destroyed.Load())
	require.EqualValues(t, 1, tries.Load())
	for range 2 * mostTries {
		d.clearLeft()
	}
	require.EqualValues(t, 1, destroyed.Load())
	require.EqualValues(t, mostTries, tries.Load())
}
