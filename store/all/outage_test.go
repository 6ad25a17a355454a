package all_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// An outage is one line at its beginning, with its cause, and one at its end. Nothing is repeated while it lasts, by the
// driver neither.
func TestOutageIsLoggedOnce(t *testing.T) {
	for _, kind := range []string{"zookeeper", "etcd", "consul"} {
		for _, fault := range []struct {
			name, cause string
			begin       func(*conformance.Network)
		}{
			{"silent", "", (*conformance.Network).Cut}, // "no answer in time", or how the driver has ended the connection
			{"refuses", "connection refused", (*conformance.Network).Refuse},
		} {
			t.Run(kind+" "+fault.name, func(t *testing.T) {
				t.Parallel()
				var lines history
				network := conformance.NewNetwork()
				u, err := store.ParseURL(on(t, kind, "ttl=3s"))
				require.NoError(t, err)
				u.Dial, u.Logger = network.Dial, slog.New(&lines)
				st, err := store.OpenURL(soon(t), u)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, st.Close()) })
				lead(t, st, newElection(), "own")

				fault.begin(network)
				eventually(t, func() bool { return lines.count("does not answer") > 0 }, "the outage is logged")
				begun := lines.count("")
				for end := time.Now().Add(2 * st.TTL()); time.Now().Before(end); {
					time.Sleep(st.TTL() / 10) // the outage goes on
				}
				require.Equal(t, begun, lines.count("the service"), "%s", &lines)
				require.LessOrEqual(t, lines.count(""), begun+1, "the end of the session besides: %s", &lines)
				require.Contains(t, lines.String(), "cause="+fault.cause)
				network.Heal()
				lead(t, st, newElection(), "own") // a store that does nothing may not ask
				eventually(t, func() bool { return lines.count("answers again") > 0 }, "the end of the outage is logged")
			})
		}
	}
}

// history is a log handler that remembers what was logged at Info and above.
type history struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (h *history) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (h *history) WithAttrs([]slog.Attr) slog.Handler           { return h }
func (h *history) WithGroup(string) slog.Handler                { return h }
func (h *history) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, line)
	return nil
}

// count returns how many lines have this text.
func (h *history) count(text string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, line := range h.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func (h *history) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.lines, "\n")
}
