package agent

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// Each request has the token of the moment. While there is none, or it is not told soon, requests have the last one, so that
// it costs no session.
func TestTokenOfTheMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []string
		a := newAgents(t, []string{"a"}, func(_ string, req *http.Request) bool {
			sent = append(sent, strings.Join(req.Header.Values("X-Consul-Token"), "+"))
			return true
		})
		a.client.conns.patience = time.Second / 2
		token, failed := "", fmt.Errorf("%w: the vault is sealed", adapter.ErrPassword)
		a.client.conns.current = func(ctx context.Context) (string, error) {
			if token == "hangs" {
				<-ctx.Done()
				return "", ctx.Err()
			}
			return token, failed
		}
		err := a.client.Explain(a.ask(time.Second))
		require.ErrorIs(t, err, failed)
		require.NotErrorIs(t, err, store.ErrUnknownOutcome)
		for _, step := range []struct {
			token  string
			failed error
		}{{"first", nil}, {"second", nil}, {"", failed}, {"hangs", nil}, {"", nil}} {
			token, failed = step.token, step.failed
			require.NoError(t, a.ask(time.Second))
		}
		require.Equal(t, []string{"first", "second", "second", "second", ""}, sent)
	})
}
