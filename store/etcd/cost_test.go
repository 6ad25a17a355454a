package etcd_test

import (
	"context"
	"crypto/rand"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
)

// meter counts the bytes that come over its connections.
type meter struct{ received atomic.Int64 }

type meteredConn struct {
	net.Conn
	meter *meter
}

func (m *meter) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return meteredConn{conn, m}, nil
}

func (c meteredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.meter.received.Add(int64(n))
	return n, err
}

// TestEntryIsReadWithoutItsValue: a watch of an entry tells the same whatever its value is, and does not read that.
func TestEntryIsReadWithoutItsValue(t *testing.T) {
	t.Parallel()
	driver := func(config etcd.Config) engine.Driver {
		config.Endpoints, config.TTL = sharedServer(t).Addrs(), long
		d, err := etcd.NewDriver(config)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		return d
	}
	var m meter
	owner, other := driver(etcd.Config{}), driver(etcd.Config{Dial: m.Dial})
	session, _, err := owner.Open(soon(t))
	require.NoError(t, err)
	election, value := newElection(), strings.Repeat("v", store.MaxValue)
	enter := func() engine.Entry {
		e, err := session.Enter(soon(t), election, engine.Nonce{Name: rand.Text()}, value)
		require.NoError(t, err)
		return e
	}
	entry := enter()
	read := func(e engine.Entry) (s engine.State) {
		told := make(chan engine.State, 100)
		w, err := other.WatchEntry(soon(t), e.Key, func(n engine.News) {
			if n.State != nil {
				told <- *n.State
			}
		})
		require.NoError(t, err)
		defer w.Stop()
		return receive(t, told, "the state")
	}
	nonce := func(e engine.Entry) string {
		_, n, _ := strings.Cut(e.Key, "-")
		n, _, _ = strings.Cut(n, "@")
		return n
	}
	want := engine.State{Token: entry.Token, Session: session.ID(), Nonce: nonce(entry)}
	require.Equal(t, want, read(entry))
	require.Less(t, m.received.Load(), int64(len(value)/2))

	require.NoError(t, owner.RequestResignation(soon(t), election, entry.Token))
	want.Resign = true
	require.Equal(t, want, read(entry))
	key, _, _ := strings.Cut(entry.Key, "@")
	_, err = operator(t).Put(soon(t), key, "without a lease")
	require.NoError(t, err)
	require.Zero(t, read(entry), "it is no ballot any more")
}
