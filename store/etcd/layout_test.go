package etcd

import (
	"testing"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// A ballot goes with the lease that it is named after. Any other key would stay in the way of all candidates.
func TestBallotIsNamedAfterItsLease(t *testing.T) {
	for name, test := range map[string]struct {
		lease  int64
		ballot bool
	}{
		"2a-nonce":   {42, true},
		"2a":         {42, true}, // of the client's concurrency.Election
		"2b-nonce":   {42, false},
		"2a-nonce/x": {42, false},
		"2a-other":   {0, false},
		"0-nonce":    {0, false},
		"0":          {0, false},
	} {
		kv := &mvccpb.KeyValue{Key: []byte("p/a/_ballots/" + name), Lease: test.lease}
		require.Equal(t, test.ballot, isBallot("p/a/_ballots/", kv), "%s on the lease %x", name, test.lease)
	}
}

// The key of an entry names one ballot for ever; the client library's own elections reuse a key.
func TestEntryKeyNamesOneBallot(t *testing.T) {
	kv := func(lease, revision int64) *mvccpb.KeyValue {
		return &mvccpb.KeyValue{Key: []byte("p/a@b/_ballots/2a-nonce"), Lease: lease, CreateRevision: revision}
	}
	entry := entryKey("p/a@b/_ballots/2a-nonce", 7)
	require.Equal(t, "p/a@b/_ballots/2a-nonce", keyOf(entry))
	require.Equal(t, engine.State{Token: 7, Session: "2a", Nonce: "nonce"}, entryState(entry, kv(42, 7)))
	require.Zero(t, entryState(entry, nil))
	require.Zero(t, entryState(entry, kv(42, 8)), "another ballot with the same key")
	require.Zero(t, entryState(entry, kv(0, 7)), "it was overwritten, and goes with no lease")
	require.Zero(t, entryState(entry, kv(43, 7)))
	require.Equal(t, engine.State{Token: 7, Session: "2a"},
		entryState("p/x/_ballots/2a@7", &mvccpb.KeyValue{Key: []byte("p/x/_ballots/2a"), Lease: 42, CreateRevision: 7}))
}
