package zookeeper_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

// The settings, a store, and what uses it print no password, with any verb.
func TestPasswordIsNotPrinted(t *testing.T) {
	const password = "hUnter2"
	config := zookeeper.Config{Servers: []string{"127.0.0.1:1"}, User: "alice", Password: password, Chroot: "/prod"}
	st := open(t, config)
	fromURL, err := store.Open(soon(t), "zookeeper://alice:"+password+"@127.0.0.1:1/prod", nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, fromURL.Close()) }()
	c, err := leadership.NewCandidate(st, "e", "v", nil)
	require.NoError(t, err)
	f, err := leadership.NewFollower(st, "e", nil)
	require.NoError(t, err)

	for _, x := range []any{
		config, &config, zookeeper.Config{Servers: []string{"h", "alice:" + password + "@h"}}, []zookeeper.Config{config}, st, fromURL, []any{st}, c, f,
		struct{ Config zookeeper.Config }{config},
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t"} {
			text := fmt.Sprintf(verb, x)
			require.NotContains(t, text, password, "%s of %T", verb, x)
			require.NotContains(t, text, fmt.Sprintf("%x", password), "%s of %T", verb, x)
			require.NotContains(t, text, fmt.Sprintf("%X", password), "%s of %T", verb, x)
		}
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("", "x", x)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("", "x", x)
		require.NotContains(t, log.String(), password, "%T", x)
	}

	name := "zookeeper://127.0.0.1:1/prod"
	require.Equal(t, name, fmt.Sprint(st))
	require.Equal(t, name, fmt.Sprintf("%+v", fromURL))
	require.Contains(t, fmt.Sprintf("%+v", config), "Chroot:/prod")
	require.Contains(t, fmt.Sprintf("%+v", config), "Password:***")
	require.NotContains(t, fmt.Sprintf("%+v", zookeeper.Config{}), "***", "whether there is one is no secret")
}

// Package fmt prints fields without asking methods if a field is unexported, or a value is converted to another type.
// What a store keeps does not show there either.
func TestStoreKeepsThePasswordOutOfReach(t *testing.T) {
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
