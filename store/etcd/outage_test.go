package etcd_test

import (
	"errors"
	"testing"

	"github.com/go-leadership/leadership/conformance"
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

// A candidate is cut off for longer than its TTL, in each of its states.
func TestCutOff(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(t *testing.T, election string, network *conformance.Network, c, other *contender){
		"while it waits": func(t *testing.T, election string, network *conformance.Network, c, other *contender) {
			network.Cut()
			eventually(t, func() bool { return len(values(t, other.Store, election)) == 1 }, "its ballot goes")
			network.Heal()
			eventually(t, func() bool { return len(values(t, other.Store, election)) == 2 }, "it stands again")
			require.Len(t, other.Terms, 0)
			other.End()
			receive(t, c.Terms, "it leads")
		},
		"while it leads": func(t *testing.T, election string, network *conformance.Network, c, other *contender) {
			other.Resign()
			term := receive(t, c.Terms, "it leads")
			network.Cut()
			next := receive(t, other.Terms, "the other one leads")
			require.False(t, c.IsLeader())
			require.Error(t, term.Context().Err())
			require.Greater(t, next.Token(), term.Token())
			network.Heal()
			eventually(t, func() bool { return len(values(t, other.Store, election)) == 2 }, "it stands again")
			require.NoError(t, next.Context().Err(), "the other one goes on")
		},
		"while it resigns": func(t *testing.T, election string, network *conformance.Network, c, other *contender) {
			other.Resign()
			receive(t, c.Terms, "it leads")
			network.Cut()
			c.End()
			require.False(t, c.IsLeader())
			receive(t, other.Terms, "the other one leads")
			network.Heal()
			require.Equal(t, []string{"other"}, values(t, other.Store, election))
		},
		"while it stops waiting": func(t *testing.T, election string, network *conformance.Network, c, other *contender) {
			network.Cut()
			c.End()
			network.Heal()
			eventually(t, func() bool { return len(values(t, other.Store, election)) == 1 }, "its ballot goes")
			castFirst(t, c.Store, newElection(), "x")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			election := newElection()
			network := conformance.NewNetwork()
			other := contend(t, open(t, etcd.Config{TTL: middling}), election, "other")
			receive(t, other.Terms, "the other one leads")
			c := contend(t, open(t, etcd.Config{Dial: network.Dial}), election, "own")
			eventually(t, func() bool { return len(values(t, other.Store, election)) == 2 }, "both stand")
			oneLeader(t, c, other)
			cut(t, election, network, c, other)
		})
	}
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
