package cluster_test

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/harness"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	_ "github.com/go-leadership/leadership/store/postgres"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Cases on a primary and two standbys that are killed and restarted meanwhile. When the primary has ended, a standby
// takes over.
func TestCluster(t *testing.T) {
	srv := testserver.NewPostgresCluster(t, testserver.PostgresConfig{})
	harness.RunDisturbed(t, srv, harness.Postgres.Patiently().On(t, srv.Addrs()...), 12)
}
