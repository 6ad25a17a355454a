package all_test

import (
	"fmt"
	"testing"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/all"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

// A store, its settings and its parts never show the password when they are printed.
func TestPrintedWithoutPassword(t *testing.T) {
	const password = "hUnter2"
	things := []any{
		zookeeper.Config{User: "u", Password: password, Servers: []string{"u:" + password + "@h"}},
		etcd.Config{User: "u", Password: password, Endpoints: []string{"u:" + password + "@h"}},
		consul.Config{Token: password, Addresses: []string{"u:" + password + "@h"}},
	}
	for _, url := range []string{"zookeeper://u:" + password + "@127.0.0.1", "etcd://u:" + password + "@127.0.0.1", "consul://:" + password + "@127.0.0.1"} {
		st, err := store.Open(t.Context(), url, nil)
		require.NoError(t, err)
		defer st.Close()
		c, err := leadership.NewCandidate(st, "election", "value", nil)
		require.NoError(t, err)
		f, err := leadership.NewFollower(st, "election", nil)
		require.NoError(t, err)
		things = append(things, st, c, f)
	}
	for _, thing := range things {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			printed := fmt.Sprintf(verb, thing)
			require.NotContains(t, printed, password, "%s of %T", verb, thing)
			require.NotContains(t, printed, fmt.Sprintf("%x", password), "%s of %T", verb, thing)
			require.NotContains(t, fmt.Sprintf(verb, []any{thing}), password)
		}
	}
}
