package consul

import (
	"testing"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// The condition names the namespace and the partition of the store, which the program's client might not have.
func TestConditionNamesTheNamespace(t *testing.T) {
	s := &session{driver: &driver{config: Config{Namespace: "n", Partition: "p"}}, id: "s"}
	require.Equal(t, &api.KVTxnOp{
		Verb: api.KVCheckSession, Key: "k", Session: "s", Namespace: "n", Partition: "p",
	}, s.Condition(engine.Entry{Key: "k"}))
}
