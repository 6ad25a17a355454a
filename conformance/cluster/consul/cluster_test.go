package consul_test

import (
	"testing"

	"github.com/go-leadership/leadership/internal/harness"
	"github.com/go-leadership/leadership/internal/testserver"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The suite on a cluster that is never left alone. The stores speak to an agent that is no server, as they do in
// production.
func TestCluster(t *testing.T) {
	srv := testserver.NewConsul(t, testserver.ConsulConfig{
		Members: 3, Client: true,
		Extra: "autopilot { cleanup_dead_servers = false }", // which would make a cluster of two of them
	})
	harness.RunDisturbed(t, srv, harness.Consul.Patiently().On(t, srv.Client().Addr()))
}
