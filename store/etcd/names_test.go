package etcd

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/stretchr/testify/require"
)

// A name has two addresses. The member at the first one accepts connections and hangs: the second one is tried when the
// first has been silent for the limit, a quarter of the TTL.
func TestHangingAddressOfANameIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := make(chan time.Duration, 1)
		began := time.Now()
		names := adapter.NewDialer(func(_ context.Context, _, address string) (net.Conn, error) {
			if address == "10.0.0.2:2379" {
				select {
				case second <- time.Since(began):
				default:
				}
				return nil, errors.New("refused")
			}
			return storetest.Hanging(address), nil
		}, func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}, nil
		})
		d, err := newDriver(Config{Endpoints: []string{"etcd"}, TTL: 20 * time.Second, dialer: names})
		require.NoError(t, err)
		defer d.Close()
		d.begin()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() { _, _, _ = d.Open(ctx) }()
		require.InDelta(t, 5*time.Second, <-second, float64(time.Second))
	})
}
