package consul_test

import (
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// A request to void arrives late, and changes the mark of its slot again. The next request to enter in this slot is refused,
// and the one after it makes the entry.
func TestEnterAfterALateVoid(t *testing.T) {
	t.Parallel()
	election := newElection()
	d, err := consul.NewDriver(consul.Config{Addresses: sharedServer(t).Addrs()[:1], TTL: long})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	s, _, err := d.Open(soon(t))
	require.NoError(t, err)
	defer func() { require.NoError(t, s.End(soon(t), nil)) }()
	require.NoError(t, s.Void(soon(t), election, engine.Nonce{Name: "first", Slot: 3, Turn: 1}))
	mark := &api.KVPair{Key: "leadership/_void/" + s.ID() + "-3", Value: []byte("late"), Session: s.ID()}
	held, _, err := operator(t, sharedServer(t)).KV().Acquire(mark, nil)
	require.NoError(t, err)
	require.True(t, held)

	second := engine.Nonce{Name: "second", Slot: 3, Turn: 2}
	_, err = s.Enter(soon(t), election, second, "own")
	require.ErrorIs(t, err, store.ErrUnavailable)
	e, err := s.Enter(soon(t), election, second, "own")
	require.NoError(t, err)
	require.NotZero(t, e.Token)
}
