package status_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/status"
	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
)

// A query that can't be read is no leader without a margin: a balancer would send after the lease.
func TestMarginThatCannotBeRead(t *testing.T) {
	st, err := store.Open(context.Background(), "memory://margin?ttl=12s", nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	c, err := leadership.NewCandidate(st, "database", "a", nil)
	require.NoError(t, err)
	h := status.New(status.Config{})
	h.Candidate(c)
	for _, query := range []string{"margin=2s;", "a=1;margin=2s", "margin=2s%", "margin=&margin=2s", "margin=0s&margin=2s", "Margin=2s", "margins=2s"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/leader?"+query, nil))
		require.Equal(t, http.StatusBadRequest, w.Code, query)
	}
}
