package all_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// An outage is one line at its beginning, with its cause, and one at its end. Nothing is repeated while it lasts, by the
// driver neither.
func TestOutageIsLoggedOnce(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"zookeeper", "etcd", "consul"} {
		for _, fault := range []struct {
			name, cause string
			begin       func(*conformance.Network)
		}{
			{"silent", "", (*conformance.Network).Cut}, // what the driver says of it
			{"refuses", "connection refused", (*conformance.Network).Refuse},
		} {
			t.Run(kind+" "+fault.name, func(t *testing.T) {
				t.Parallel()
				var lines history
				network := conformance.NewNetwork()
				u, err := store.ParseURL(on(t, kind, "ttl=9s"))
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
				require.Regexp(t, "cause=.*"+fault.cause, lines.String())
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

// A read or Clear with a deadline returns why the store can't be reached, not only that the deadline has passed.
func TestReadsSayWhyThereIsNoAnswer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close()) // nothing listens there now
	for _, kind := range []string{"zookeeper", "etcd", "consul"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			st := open(t, kind+"://"+listener.Addr().String(), nil)
			for what, read := range map[string]func(context.Context) error{
				"the leader":  func(ctx context.Context) error { _, err := storetest.Leader(ctx, st, "e", nil); return err },
				"the ballots": func(ctx context.Context) error { _, err := st.Ballots(ctx, "e"); return err },
				"clear":       func(ctx context.Context) error { return st.Clear(ctx, "e") },
			} {
				eventually(t, func() bool {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					err := read(ctx)
					require.ErrorIs(t, err, context.DeadlineExceeded, what)
					return strings.Contains(err.Error(), "connection refused")
				}, "it says why: "+what)
			}
		})
	}
}

// Options.Renewed is called once for each renewal of the session, however many ballots it has: with the times that the lease
// shows.
func TestRenewedIsToldOnceForAllElections(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"zookeeper", "etcd", "consul", "file", "memory"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			raw := "memory://renewed?ttl=9s"
			switch kind {
			case "file":
				raw = "file://" + t.TempDir() + "/store?ttl=9s"
			case "zookeeper", "etcd", "consul":
				raw = on(t, kind, "ttl=9s")
			}
			var mu sync.Mutex
			var latencies []time.Duration
			st, err := store.Open(soon(t), raw, &store.Options{Renewed: func(latency time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				latencies = append(latencies, latency)
			}})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, st.Close()) })
			told := func() int {
				mu.Lock()
				defer mu.Unlock()
				return len(latencies)
			}
			var lease *store.Lease
			for range 20 {
				lease = cast(t, st, newElection(), "own").Lease()
			}
			before, renewals := told(), 0
			for last := lease.Last(); renewals < 3; renewals++ {
				<-last.Changed
				last = lease.Last()
			}
			eventually(t, func() bool { return told() >= before+renewals }, "renewals are told")
			require.LessOrEqual(t, told(), before+2*renewals, "and not for each of 20 elections")
			mu.Lock()
			defer mu.Unlock()
			for _, latency := range latencies {
				require.Positive(t, latency)
				require.Less(t, latency, 9*time.Second)
			}
		})
	}
}
