package conformance_test

import (
	"context"
	"errors"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// silent keeps the client library from printing.
type silent struct{}

func (silent) Printf(string, ...any) {}

// onZooKeeper is the harness of a real ZooKeeper.
func onZooKeeper(t *testing.T, srv *testserver.ZooKeeper) conformance.Harness {
	const tick, ttl = 500 * time.Millisecond, 3 * time.Second
	operator, _, err := zk.Connect(srv.Addrs(), 10*time.Second, zk.WithLogger(silent{}))
	require.NoError(t, err)
	t.Cleanup(operator.Close)
	return conformance.Harness{
		Open: func(_ context.Context, dial conformance.DialFunc) (store.Store, error) {
			return zookeeper.Open(zookeeper.Config{Servers: srv.Addrs(), TTL: ttl, Dial: dial})
		},
		Clear: func(_ context.Context, election string) error {
			return clearNode(operator, "/_zkelection/"+strings.ReplaceAll(election, "/", "__"))
		},
		TTL:    ttl,
		Expiry: ttl + 2*tick,
	}
}

// clearNode deletes a node and its children in one step, again where others appear or go meanwhile.
func clearNode(conn *zk.Conn, dir string) error {
	for {
		children, _, err := conn.Children(dir)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		var ops []any
		for _, child := range children {
			ops = append(ops, &zk.DeleteRequest{Path: path.Join(dir, child), Version: -1})
		}
		_, err = conn.Multi(append(ops, &zk.DeleteRequest{Path: dir, Version: -1})...)
		if !errors.Is(err, zk.ErrNotEmpty) && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
}

func TestZooKeeper(t *testing.T) {
	conformance.Run(t, onZooKeeper(t, testserver.NewZooKeeper(t, testserver.ZooKeeperConfig{})))
}

func TestZooKeeperEnsemble(t *testing.T) {
	srv := testserver.NewZooKeeper(t, testserver.ZooKeeperConfig{Members: 3})
	runDisturbed(t, srv, onZooKeeper(t, srv))
}
