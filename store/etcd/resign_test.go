package etcd

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// RequestResignation marks the ballot of the token and nothing else: no key that is no ballot, and no ballot that has the
// same key since.
func TestOnlyTheBallotOfTheTokenIsMarked(t *testing.T) {
	t.Parallel()
	var b between
	d, s := opened(t, b.intercept)
	key := d.layout.dir("x") + ballotName(s.id, "n")
	put := func(key string) uint64 {
		t.Helper()
		resp, err := d.change(soon(t), nil, clientv3.OpPut(key, "v", s.onLease()))
		require.NoError(t, err)
		return uint64(resp.Header.Revision)
	}
	version := func(key string) int64 {
		t.Helper()
		found, _, err := d.read(soon(t), nil, clientv3.OpGet(key))
		require.NoError(t, err)
		return first(found[0]).GetVersion()
	}
	notes := d.layout.dir("x") + "notes"
	require.NoError(t, d.RequestResignation(soon(t), "x", put(notes)))
	require.EqualValues(t, 1, version(notes))

	token := put(key)
	var asked atomic.Int32
	count := func(*pb.TxnRequest) error { asked.Add(1); return nil }
	b.before.Store(&count)
	require.NoError(t, d.RequestResignation(soon(t), "x", 0))
	require.Zero(t, asked.Load(), "no ballot has this token")

	again := func(r *pb.TxnRequest) error {
		if r.Success[0].GetRequestPut() != nil { // the mark is on its way
			b.before.Store(nil)
			write(t, d, clientv3.OpDelete(key))
			put(key)
		}
		return nil
	}
	b.before.Store(&again)
	require.NoError(t, d.RequestResignation(soon(t), "x", token))
	require.Nil(t, b.before.Load())
	require.EqualValues(t, 1, version(key))
}

// A ballot of the client library's own election is listed as such, and a request to resign is refused: its owner would never
// read it. A peer that puts another value is not one that was asked.
func TestPeersAreForeign(t *testing.T) {
	t.Parallel()
	election := newElection()
	st := open(t, Config{})
	a := concurrent(t, operator(t), election)
	require.NoError(t, receive(t, campaignAsPeer(t, a, "a"), "a leads"))
	require.NoError(t, a.Proclaim(soon(t), "a, changed"))
	b := cast(t, st, election, "b")
	token := uint64(a.Rev())
	require.ErrorIs(t, st.RequestResignation(soon(t), election, token), errors.ErrUnsupported)
	require.NoError(t, st.RequestResignation(soon(t), election, b.Token()))
	list, err := st.Ballots(soon(t), election)
	require.NoError(t, err)
	require.Equal(t, []store.Standing{
		{Value: "a, changed", Token: token, Foreign: true}, {Value: "b", Token: b.Token(), Asked: true},
	}, list)
}
