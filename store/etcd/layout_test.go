package etcd

import (
	"testing"

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
