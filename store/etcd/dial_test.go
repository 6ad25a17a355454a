package etcd

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// In a minute of an outage a store opens four connections a second at most, however many endpoints there are and whatever
// happens to the connections.
func TestDialsOfAnOutage(t *testing.T) {
	settings := []byte{0, 0, 0, 4, 0, 0, 0, 0, 0} // a frame of HTTP/2 that sets nothing: to the client library, the server works
	for name, serve := range map[string]func(server net.Conn) error{
		"refused": func(net.Conn) error { return errors.New("connection refused") },
		"closed at once": func(server net.Conn) error {
			go func() { _ = server.Close() }()
			return nil
		},
		"closed after the first answer": func(server net.Conn) error {
			go func() {
				go func() { _, _ = io.Copy(io.Discard, server) }()
				_, _ = server.Write(settings)
				_ = server.Close()
			}()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var dials int
				dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
					mu.Lock()
					dials++
					flood := dials > 2000
					mu.Unlock()
					if flood {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					client, server := net.Pipe()
					return client, serve(server)
				}
				d, err := newDriver(Config{Endpoints: []string{"a", "b", "c", "d", "e"}, TTL: 4 * time.Second, Dial: dial})
				require.NoError(t, err)
				t.Cleanup(func() { _ = d.Close() })
				d.begin()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				for ctx.Err() == nil {
					_, _, err = d.Open(ctx)
					time.Sleep(250 * time.Millisecond)
				}
				require.Error(t, err)
				synctest.Wait()
				mu.Lock()
				n := dials
				mu.Unlock()
				require.Less(t, n, 4*60+3*5+5)
				require.Greater(t, n, 30)
				t.Logf("%d dials", n)
			})
		})
	}
}
