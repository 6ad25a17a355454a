package zookeeper_test

import (
	"testing"

	"github.com/go-leadership/leadership/internal/harness"
	"github.com/go-leadership/leadership/internal/testserver"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The suite on an ensemble that is never left alone.
func TestEnsemble(t *testing.T) {
	srv := testserver.NewZooKeeper(t, testserver.ZooKeeperConfig{
		Members: 3,
		Extra:   map[string]string{"forceSync": "no"}, // a killed process leaves what it has written
	})
	harness.RunDisturbed(t, srv, harness.ZooKeeper.Patiently().On(t, srv.Addrs()...))
}
