package consul

import (
	"net/http"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// Consul leaves what the token may not read out of a list, and says so if there is a token. That is a denial: no session has
// ended, and no ballot has gone.
func TestFilteredListIsADenial(t *testing.T) {
	d := driverOf(t, leastSessionTTL, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Consul-Index", "7")
		w.Header().Set("X-Consul-LastContact", "0") // without it the library reads no further
		w.Header().Set("X-Consul-Results-Filtered-By-ACLs", "true")
		_, _ = w.Write([]byte("[]"))
	})
	require.ErrorIs(t, d.prove(t.Context(), "id"), store.ErrDenied)
	_, err := d.First(t.Context(), "election")
	require.ErrorIs(t, err, store.ErrDenied)
	_, err = d.Ballots(t.Context(), "election")
	require.ErrorIs(t, err, store.ErrDenied)
	_, err = d.Elections(t.Context())
	require.ErrorIs(t, err, store.ErrDenied)
}
