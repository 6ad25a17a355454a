package etcd_test

import (
	"errors"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
)

// The server is not there at the start: a candidate reports that, and leads once the server is there.
func TestUnreachableAtTheStart(t *testing.T) {
	t.Parallel()
	server := testserver.NewEtcd(t, testserver.EtcdConfig{Extra: fast})
	require.NoError(t, server.Member(0).Stop())
	c := contend(t, open(t, etcd.Config{Endpoints: server.Addrs()}), "a", "own")
	follower := open(t, etcd.Config{Endpoints: server.Addrs()})
	leaders := make(chan store.Leader, 1)
	go func() {
		leader, err := storetest.Leader(soon(t), follower, "a", &store.Leader{})
		if err == nil {
			leaders <- leader
		}
	}()
	eventually(t, func() bool { return len(c.Errors()) > 0 }, "an error")
	require.ErrorIs(t, c.Errors()[0], store.ErrUnavailable)
	require.ErrorContains(t, c.Errors()[0], "connection refused")
	require.ErrorContains(t, c.Errors()[0], server.Addrs()[0])
	require.False(t, follower.Worked())
	require.NoError(t, server.Member(0).Start(soon(t)))
	receive(t, c.Terms, "it leads")
	require.Equal(t, "own", receive(t, leaders, "the follower learns").Value)
}

// The disk's quota is used up: a campaign reports that, and goes on when there is room.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	server := testserver.NewEtcd(t, testserver.EtcdConfig{Extra: append(fast, "--quota-backend-bytes=100000")})
	client := operator(t, server.Addrs()...)
	value := string(make([]byte, 100_000))
	eventually(t, func() bool {
		_, err := client.Put(soon(t), "x", value)
		return err != nil
	}, "the quota is used up")
	st := open(t, etcd.Config{Endpoints: server.Addrs()})
	_, err := st.Cast(soon(t), "a", "own")
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "space exceeded")
	require.False(t, errors.Is(err, store.ErrDenied))
}
