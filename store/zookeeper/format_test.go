package zookeeper_test

import (
	"fmt"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

// Package fmt prints fields without asking methods if a field is unexported, or a value is converted to another type.
// What a store keeps does not show there either.
func TestStoreKeepsThePasswordOutOfReach(t *testing.T) {
	t.Parallel()
	const password = "hUnter2"
	st := open(t, zookeeper.Config{Servers: []string{"127.0.0.1:1"}, User: "alice", Password: password})
	require.NoError(t, st.Close()) // nothing writes to it any more
	type plain zookeeper.Store
	for _, x := range []any{(*plain)(st), struct{ st *zookeeper.Store }{st}, struct{ st store.Store }{st}} {
		require.NotContains(t, fmt.Sprintf("%+v%s", x, x), password)
	}
	d := st.Driver()
	for _, x := range []any{d, struct{ d engine.Driver }{d}} {
		text := fmt.Sprintf("%+v%s", x, x)
		require.Contains(t, text, "alice")
		require.NotContains(t, text, password)
	}
}
