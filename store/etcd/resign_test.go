package etcd

import (
	"errors"
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
	before := func(*pb.TxnRequest) {}
	d, s := opened(t, each(func(_ string, req any, send func() error) error {
		if r, ok := req.(*pb.TxnRequest); ok {
			before(r)
		}
		return send()
	}))
	put := func(key string) uint64 {
		t.Helper()
		resp, err := d.change(soon(t), nil, clientv3.OpPut(key, "v", s.onLease()))
		require.NoError(t, err)
		return uint64(resp.Header.Revision)
	}
	unmarked := func(key string, token uint64) {
		t.Helper()
		require.NoError(t, d.RequestResignation(soon(t), "x", token))
		kv, _, err := d.readKey(soon(t), key)
		require.NoError(t, err)
		require.EqualValues(t, 1, kv.GetVersion())
	}
	notes, key := d.layout.dir("x")+"notes", d.layout.dir("x")+ballotName(s.id, "n")
	unmarked(notes, put(notes))
	token := put(key)
	unmarked(key, 0)
	replaced := false
	before = func(r *pb.TxnRequest) {
		if !replaced && r.Success[0].GetRequestPut() != nil { // the mark is on its way
			replaced = true
			write(t, d, clientv3.OpDelete(key))
			put(key)
		}
	}
	unmarked(key, token)
	require.True(t, replaced)
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
