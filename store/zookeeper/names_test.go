package zookeeper

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/stretchr/testify/require"
)

// A name has three addresses: the first is dead, the server at the second accepts connections and hangs. When the third
// falls silent, it costs no session.
func TestNameWithDeadAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{ttl: scriptedTTL}
		began := time.Now()
		var mute atomic.Bool
		s.mute = func(int, int32) bool { return mute.Load() }
		s.trip = time.Millisecond
		var mu sync.Mutex
		var reached []string // guarded by mu
		reaches := func(address string) {
			mu.Lock()
			defer mu.Unlock()
			reached = append(reached, address)
		}
		seen := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(reached)
		}
		names := adapter.NewDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			switch address {
			case "10.0.0.1:2181":
				<-ctx.Done()
				return nil, ctx.Err()
			case "10.0.0.2:2181":
				reaches(address)
				return storetest.Hanging(address), nil
			}
			conn, err := s.dial(ctx, network, address)
			reaches(address)
			return storetest.At(conn, address), err
		}, func(context.Context, string) (list []netip.Addr, err error) {
			for _, a := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"} {
				list = append(list, netip.MustParseAddr(a))
			}
			return list, nil
		})
		d, err := newDriver(Config{Servers: []string{"zk"}, TTL: scriptedTTL, dialer: names})
		require.NoError(t, err)
		defer d.Close()
		first := s.session(t, d)
		require.Less(t, time.Since(began), scriptedTTL/4)
		require.Equal(t, []string{"10.0.0.2:2181", "10.0.0.3:2181"}, seen())
		time.Sleep(scriptedTTL)
		mute.Store(true)
		for len(seen()) < 3 {
			time.Sleep(10 * time.Millisecond)
		}
		mute.Store(false)
		require.Equal(t, "10.0.0.4:2181", seen()[2])
		time.Sleep(10 * scriptedTTL)
		require.Same(t, first, s.session(t, d))
	})
}
