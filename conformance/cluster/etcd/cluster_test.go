package etcd_test

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/harness"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	_ "github.com/go-leadership/leadership/store/etcd"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Cases on a cluster whose members are killed and restarted meanwhile.
func TestCluster(t *testing.T) {
	srv := testserver.NewEtcd(t, testserver.EtcdConfig{Members: 3, Extra: []string{"--unsafe-no-fsync"}})
	harness.RunDisturbed(t, srv, harness.Etcd.Patiently().On(t, srv.Addrs()...), 2)
}
