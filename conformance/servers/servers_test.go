package servers_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/harness"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	_ "github.com/go-leadership/leadership/store/all"
	"github.com/stretchr/testify/require"
)

// The servers. Cases without check open more connections from one address than an agent of Consul takes by default.
var (
	zooKeeper = storetest.Shared(testserver.StartZooKeeper, testserver.ZooKeeperConfig{Extra: map[string]string{"forceSync": "no"}})
	etcd      = storetest.Shared(testserver.StartEtcd, testserver.EtcdConfig{Extra: []string{"--unsafe-no-fsync"}})
	consul    = storetest.Shared(testserver.StartConsul, testserver.ConsulConfig{Extra: `limits { http_max_conns_per_client = 5000 }`})
)

// atATime is how many cases of each store run at the same time.
const atATime = 5

// counting is the variable that makes this program run the cases that count on a server: a kind, and its addresses.
const counting = "CONFORMANCE_COUNTING"

// TestCounting runs the cases that count the goroutines of their process. So each store has a process of its own, one after
// the other, beside the other tests.
func TestCounting(t *testing.T) {
	t.Parallel()
	run := func(kind harness.Kind, addrs ...string) {
		t.Run(kind.Scheme, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestCountingAlone$")
			cmd.Env = append(os.Environ(), counting+"="+kind.Scheme+" "+strings.Join(addrs, " "))
			output, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", output)
			require.Contains(t, string(output), "--- PASS: TestCountingAlone/an-outage-is-quiet")
		})
	}
	run(harness.ZooKeeper, zooKeeper(t).Addrs()...)
	run(harness.Etcd, etcd(t).Addrs()...)
	run(harness.Consul, consul(t).Addrs()...)
}

func TestCountingAlone(t *testing.T) {
	words := strings.Fields(os.Getenv(counting))
	if len(words) == 0 {
		t.Skip("TestCounting runs it")
	}
	for _, kind := range []harness.Kind{harness.ZooKeeper, harness.Etcd, harness.Consul} {
		if kind.Scheme == words[0] {
			harness.RunCounting(t, kind.Patiently().On(t, words[1:]...), kind.On(t, words[1:]...))
		}
	}
}

// The other cases, on all stores at the same time. On Consul without check each takes as long as with such a TTL anyway.

func TestZooKeeper(t *testing.T) {
	t.Parallel()
	harness.RunTogether(t, harness.ZooKeeper.Patiently().On(t, zooKeeper(t).Addrs()...), atATime)
}

func TestEtcd(t *testing.T) {
	t.Parallel()
	harness.RunTogether(t, harness.Etcd.Patiently().On(t, etcd(t).Addrs()...), atATime)
}

func TestConsul(t *testing.T) {
	t.Parallel()
	harness.RunTogether(t, harness.Consul.Patiently().On(t, consul(t).Addrs()...), atATime)
}

// With a TTL of 10 s or more the store uses no check, and Consul ends a session after up to twice the TTL.
func TestConsulWithoutCheck(t *testing.T) {
	t.Parallel()
	harness.RunOfSessions(t, harness.ConsulSession.On(t, consul(t).Addrs()...), 2*atATime)
}
