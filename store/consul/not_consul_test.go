package consul_test

import (
	"context"
	"io"
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

// A server that is no agent answers: the error says so, and the answer is never taken for an election without
// candidates.
func TestNotConsul(t *testing.T) {
	const says = "not a Consul agent"
	for name, answer := range map[string]http.HandlerFunc{
		"it knows no such page": http.NotFound,
		"it answers with null":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "null") },
		"it says nothing":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) },
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(answer)
			defer srv.Close()
			st := open(t, consul.Config{Addresses: []string{strings.TrimPrefix(srv.URL, "http://")}, TTL: long})
			for what, call := range map[string]func(context.Context) error{
				"leader":      func(ctx context.Context) error { _, err := storetest.Leader(ctx, st, "e", nil); return err },
				"next leader": func(ctx context.Context) error { _, err := storetest.Leader(ctx, st, "e", &store.Leader{}); return err },
				"ballots":     func(ctx context.Context) error { _, err := st.Ballots(ctx, "e"); return err },
			} {
				require.ErrorContains(t, call(within(t, time.Second)), says, what)
			}
		})
	}
}
