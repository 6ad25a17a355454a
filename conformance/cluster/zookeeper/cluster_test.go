package zookeeper_test

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/harness"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	_ "github.com/go-leadership/leadership/store/zookeeper"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Cases on an ensemble whose members are killed and restarted meanwhile.
func TestEnsemble(t *testing.T) {
	srv := testserver.NewZooKeeper(t, testserver.ZooKeeperConfig{
		Members: 3,
		Extra:   map[string]string{"forceSync": "no"}, // not needed to survive a kill, only a crash of the machine
	})
	harness.RunDisturbed(t, srv, harness.ZooKeeper.Patiently().On(t, srv.Addrs()...), 2)
}
