package consul_test

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/harness"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	_ "github.com/go-leadership/leadership/store/consul"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Cases on a cluster whose servers are killed and restarted meanwhile. The stores speak to a client agent, as in
// production.
func TestCluster(t *testing.T) {
	srv := testserver.NewConsul(t, testserver.ConsulConfig{
		Members: 3, Client: true,
		Extra: "autopilot { cleanup_dead_servers = false }", // otherwise the cluster removes a killed server, and two are left
	})
	harness.RunDisturbed(t, srv, harness.Consul.Patiently().On(t, srv.Client().Addr()), 2)
}
