package etcd_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-leadership/leadership/store"
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

// The number of bytes that a candidate receives until it is first does not depend on the ballots ahead and their
// values: it receives the nearest ballot and its own some times, and never a list.
func TestBytesDoNotGrowWithTheQueue(t *testing.T) {
	t.Parallel()
	value := strings.Repeat("v", store.MaxValue)
	election := newElection()
	leading := open(t, etcd.Config{TTL: long})
	var ahead []store.Ballot
	for range 30 {
		ahead = append(ahead, cast(t, leading, election, value))
	}
	var m meter
	st := open(t, etcd.Config{TTL: long, Dial: m.Dial})
	castFirst(t, st, newElection(), "so that there is a lease")
	eventually(t, func() bool { return st.Watches() == 1 }, "it watches")
	before := m.received.Load()
	b := cast(t, st, election, value)
	eventually(t, func() bool { return st.Watches() == 3 }, "it watches the two")
	waiting(t, b)
	entered := m.received.Load()
	require.Less(t, entered-before, int64(4*len(value)), "to stand")
	for _, a := range ahead { // the nearest last
		require.NoError(t, a.Withdraw(soon(t)))
	}
	require.NoError(t, b.Wait(soon(t)))
	acknowledge(t, b, value)
	require.Less(t, m.received.Load()-entered, int64(4*len(value)), "to lead")
}
