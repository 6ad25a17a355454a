package all_test

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// A store opened by URL logs its connection to the service with the program's logger.
func TestStoresOpenedByURLLog(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close()) // nothing listens there now
	for _, kind := range []string{"zookeeper", "etcd", "consul"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			lines := make(logged, 1)
			st, err := store.Open(soon(t), kind+"://"+listener.Addr().String(), &store.Options{Logger: slog.New(lines)})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			campaign := make(chan error, 1)
			go func() {
				_, err := st.Cast(ctx, "e", "v")
				campaign <- err
			}()
			select {
			case <-lines:
			case <-soon(t).Done():
				t.Error("nothing was logged")
			}
			cancel()
			require.Error(t, <-campaign)
			require.NoError(t, st.Close())
		})
	}
}

// logged is a log handler that remembers whether it was called.
type logged chan string

func (l logged) Enabled(context.Context, slog.Level) bool { return true }
func (l logged) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l logged) WithGroup(string) slog.Handler            { return l }
func (l logged) Handle(_ context.Context, r slog.Record) error {
	select {
	case l <- r.Message:
	default:
	}
	return nil
}
