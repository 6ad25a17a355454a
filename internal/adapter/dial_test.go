package adapter_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/stretchr/testify/require"
)

// network has servers at addresses: what dialling each of them does.
type network map[string]func(ctx context.Context) error

// dial connects.
func (n network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	if err := n[address](ctx); err != nil {
		return nil, err
	}
	conn, far := net.Pipe()
	_ = far.Close()
	return at{conn, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))}, nil
}

// at is a connection to an address.
type at struct {
	net.Conn
	address net.Addr
}

func (c at) RemoteAddr() net.Addr { return c.address }

var errRefused = errors.New("refused")

func dead(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
func refuses(context.Context) error  { return errRefused }
func accepts(context.Context) error  { return nil }
func resolver(list ...string) func(context.Context, string) ([]netip.Addr, error) {
	return func(context.Context, string) (found []netip.Addr, err error) {
		for _, a := range list {
			found = append(found, netip.MustParseAddr(a))
		}
		return found, nil
	}
}

// reached dials within a limit. It returns the address that was reached, and after which time.
func reached(t *testing.T, d *adapter.Dialer, limit time.Duration) (address string, after time.Duration, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	began := time.Now()
	conn, err := d.Dial(ctx, "db:1")
	if err != nil {
		return "", time.Since(began), err
	}
	defer conn.Close()
	return conn.RemoteAddr().String(), time.Since(began), nil
}

func TestDeadAddressCostsLittle(t *testing.T) {
	for _, c := range []struct {
		limit, after time.Duration
	}{{10 * time.Second, 500 * time.Millisecond}, {time.Second, 333 * time.Millisecond}, {60 * time.Millisecond, 20 * time.Millisecond}} {
		synctest.Test(t, func(t *testing.T) {
			d := adapter.NewDialer(network{"10.0.0.1:1": dead, "10.0.0.2:1": dead, "10.0.0.3:1": accepts}.dial,
				resolver("10.0.0.1", "10.0.0.2", "10.0.0.3"))
			address, after, err := reached(t, d, c.limit)
			require.NoError(t, err)
			require.Equal(t, "10.0.0.3:1", address)
			require.InDelta(t, c.after, after, float64(time.Millisecond))

			address, after, err = reached(t, d, c.limit)
			require.NoError(t, err)
			require.Equal(t, "10.0.0.3:1", address)
			require.Zero(t, after, "the dead ones are tried again before the one that works")
		})
	}
}

func TestRefusalIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := adapter.NewDialer(network{"10.0.0.1:1": refuses, "10.0.0.2:1": accepts}.dial, resolver("10.0.0.1", "10.0.0.2"))
		address, after, err := reached(t, d, time.Second)
		require.NoError(t, err)
		require.Equal(t, "10.0.0.2:1", address)
		require.Zero(t, after)
	})
}

// TestNextDialBeginsElsewhere: an address might accept connections and not work.
func TestNextDialBeginsElsewhere(t *testing.T) {
	d := adapter.NewDialer(network{"10.0.0.1:1": accepts, "10.0.0.2:1": accepts, "10.0.0.3:1": accepts}.dial, func() func(context.Context, string) ([]netip.Addr, error) {
		answers := 0
		return func(ctx context.Context, host string) ([]netip.Addr, error) { // in another order each time
			answers++
			list := []string{"10.0.0.2", "10.0.0.1", "10.0.0.3"}
			return resolver(append(list[answers%3:], list[:answers%3]...)...)(ctx, host)
		}
	}())
	seen := map[string]bool{}
	for range 3 {
		conn, err := d.Dial(t.Context(), "db:1")
		require.NoError(t, err)
		seen[conn.RemoteAddr().String()] = true
		again, _, err := reached(t, d, time.Hour)
		require.NoError(t, err)
		require.Equal(t, conn.RemoteAddr().String(), again, "the address that works is not kept")
		d.Leave("db:1", conn.RemoteAddr())
		d.Leave("db:1", conn.RemoteAddr())
		d.Leave("other:1", conn.RemoteAddr())
		require.NoError(t, conn.Close())
	}
	require.Len(t, seen, 3, "not each address has its turn")
}

func TestFailedAddressIsNotTheNextFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tried []string
		record := func(address string, do func(context.Context) error) func(context.Context) error {
			return func(ctx context.Context) error { tried = append(tried, address); return do(ctx) }
		}
		d := adapter.NewDialer(network{"10.0.0.1:1": record("1", refuses), "10.0.0.2:1": record("2", refuses)}.dial, resolver("10.0.0.1", "10.0.0.2"))
		for range 2 {
			_, _, err := reached(t, d, time.Second)
			require.ErrorIs(t, err, errRefused)
			require.EqualError(t, err, "refused; refused")
		}
		require.Equal(t, []string{"1", "2", "2", "1"}, tried)
	})
}

// TestLosersAreClosed: of two that are reached, one is used. No attempt outlasts Dial.
func TestLosersAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Int64
		var late *closing
		d := adapter.NewDialer(func(ctx context.Context, network_, address string) (net.Conn, error) {
			defer ended.Add(1)
			if address == "10.0.0.1:1" {
				<-ctx.Done()
				late = &closing{}
				return late, nil
			}
			return network{"10.0.0.2:1": accepts}.dial(ctx, network_, address)
		}, resolver("10.0.0.1", "10.0.0.2"))
		address, _, err := reached(t, d, time.Second)
		require.NoError(t, err)
		require.Equal(t, "10.0.0.2:1", address)
		require.EqualValues(t, 2, ended.Load())
		require.True(t, late.closed)
	})
}

type closing struct {
	net.Conn
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		server    string
		found     []string
		addresses []string
	}{
		{"10.0.0.9:1", nil, []string{"10.0.0.9:1"}},
		{"[fd00::9]:1", nil, []string{"[fd00::9]:1"}},
		{"db:1", []string{"fd00::1", "fd00::2", "fd00::3", "10.0.0.1"}, []string{"[fd00::1]:1", "10.0.0.1:1", "[fd00::2]:1", "[fd00::3]:1"}},
		{"db:1", []string{"::ffff:10.0.0.1", "fd00::1"}, []string{"10.0.0.1:1", "[fd00::1]:1"}},
	} {
		addresses, err := adapter.NewDialer(nil, resolver(c.found...)).Addresses(t.Context(), c.server)
		require.NoError(t, err)
		require.Equal(t, c.addresses, addresses)
	}
	_, err := adapter.NewDialer(nil, resolver()).Dial(t.Context(), "db:1")
	require.EqualError(t, err, "dial tcp: lookup db: no addresses")
	unknown := func(context.Context, string) ([]netip.Addr, error) { return nil, errRefused }
	_, err = adapter.NewDialer(nil, unknown).Dial(t.Context(), "db:1")
	require.ErrorIs(t, err, errRefused)

	// A program's own function gets the name: it might go through a proxy.
	conn, err := adapter.NewDialer(func(_ context.Context, _, address string) (net.Conn, error) {
		require.Equal(t, "db:1", address)
		return &closing{}, nil
	}, nil).Dial(t.Context(), "db:1")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}
