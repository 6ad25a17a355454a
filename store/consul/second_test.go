package consul_test

import (
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// The second in line is lost, and never first, if an operator ends its ballot together with the one ahead, or just before.
func TestSecondEndsWithTheFirst(t *testing.T) {
	client := operator(t, sharedServer(t))
	for name, end := range map[string]func(p *api.KVPair) *api.KVTxnOp{
		"deleted": func(p *api.KVPair) *api.KVTxnOp { return &api.KVTxnOp{Verb: api.KVDelete, Key: p.Key} },
		"released": func(p *api.KVPair) *api.KVTxnOp {
			return &api.KVTxnOp{Verb: api.KVUnlock, Key: p.Key, Session: p.Session}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ahead, behind := open(t, consul.Config{}), open(t, consul.Config{})
			for range 20 {
				election := newElection()
				first, second := castFirst(t, ahead, election, "first"), cast(t, behind, election, "second")
				waiting(t, second)
				waited := make(chan error, 1)
				go func() { waited <- second.Wait(soon(t)) }()
				var ops api.KVTxnOps
				for _, p := range ballotKeys(t, client, election) {
					ops = append(ops, end(p))
				}
				ok, _, _, err := client.KV().Txn(ops, nil)
				require.NoError(t, err)
				require.True(t, ok)
				require.ErrorIs(t, receive(t, waited, "the end of the second"), store.ErrLost, "it was first")
				lost(t, first)
			}
		})
	}
}
