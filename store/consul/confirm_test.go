package consul_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/storetest"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

// The requests of a confirmation are sent at the same time. It counts only if each of them has been answered: a lease
// never counts from a request that the agent or the servers might not have seen.
func TestConfirmationNeedsEachAnswer(t *testing.T) {
	for name, parts := range map[string][]string{
		"the pass": {"PUT", "check/update"}, "the read": {"GET", "session/info", "consistent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tp := newTap(t)
			st := open(t, consul.Config{Addresses: tp.addr(), TTL: 2 * short})
			b := castFirst(t, st, newElection(), "own")
			first := b.Lease().Last()
			receive(t, first.Changed, "a confirmation")
			silent := time.Now()
			for range 100 {
				tp.catch(hang, parts...)
			}
			before := tp.Count("")
			lost(t, b)
			require.False(t, b.Lease().Last().Sent.After(silent), "a confirmation has counted without an answer")
			require.Less(t, time.Since(silent), 4*short, "the session is given up, a TTL after the last one that counted")
			require.Less(t, tp.Count("")-before, 60, "requests in that time")
		})
	}
}

// A confirmation without an answer does not delay the next ones: the lease is renewed while it hangs.
func TestConfirmationHangs(t *testing.T) {
	for name, c := range map[string]struct {
		ttl   time.Duration
		parts []string
	}{
		"the pass": {checked, []string{"PUT", "check/update"}}, "the read": {long, []string{"GET", "session/info", "consistent"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tp := newTap(t)
			b := castFirst(t, open(t, consul.Config{Addresses: tp.addr(), TTL: c.ttl}), newElection(), "own")
			begun := make(chan struct{})
			hung := tp.catch(func(tp *tap, w http.ResponseWriter, r *http.Request, body []byte) {
				close(begun)
				hang(tp, w, r, body)
			}, c.parts...)
			receive(t, begun, "a confirmation")
			storetest.Renewed(t, b)
			select {
			case <-hung.caught:
				require.Fail(t, "it was renewed when the confirmation had been given up")
			default:
			}
		})
	}
}

// However often the session is in doubt, confirmations do not pile up at an agent that does not answer.
func TestDoubtsAreBounded(t *testing.T) {
	t.Parallel()
	tp := newTap(t)
	tp.always(answer(http.StatusInternalServerError, "doubt"), "GET", "session/info", "index=")
	tp.always(hang, "GET", "session/info", "consistent")
	castFirst(t, open(t, consul.Config{Addresses: tp.addr(), TTL: time.Minute}), newElection(), "own")
	eventually(t, func() bool { return tp.Count("GET", "session/info", "index=") >= 8 }, "doubts")
	sent := tp.Count("GET", "session/info", "consistent")
	require.Greater(t, sent, 1)
	require.LessOrEqual(t, sent, 4)
}
