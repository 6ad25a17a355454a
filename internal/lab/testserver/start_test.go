package testserver

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// If another process takes a port after it was chosen, the service starts on other ports.
func TestPortTakenMeanwhile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		kind    kind
		members int
		indices []int
	}{
		{"ZooKeeper, for clients", zooKeeperKind, 1, []int{0}},
		{"ZooKeeper ensemble, for clients", zooKeeperKind, 3, []int{3}},
		{"ZooKeeper, for followers", zooKeeperKind, 3, []int{1, 4, 7}}, // only the member that leads takes its own
		{"ZooKeeper, for elections", zooKeeperKind, 3, []int{5}},
		{"etcd, for clients", etcdKind, 1, []int{0}},
		{"etcd, for peers", etcdKind, 1, []int{1}},
		{"etcd, for metrics", etcdKind, 1, []int{2}},
		{"Consul, for clients", consulKind, 1, []int{0}},
		{"Consul, for servers", consulKind, 1, []int{1}},
		{"Consul, for gossip", consulKind, 1, []int{2}},
		{"PostgreSQL", postgresKind, 1, []int{0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var thieves []net.Listener
			attempts := 0
			s, err := c.kind.start(t, c.members, func(n int) (*ports, error) {
				p, err := reservePorts(n)
				if attempts++; err != nil || attempts > 1 {
					return p, err
				}
				for _, i := range c.indices {
					thief, err := net.Listen("tcp", loopback(p.numbers[i]))
					if err != nil {
						return p, err
					}
					thieves = append(thieves, thief)
				}
				return p, nil
			})
			require.NoError(t, err)
			defer s.Close()
			require.Equal(t, 2, attempts)
			for _, thief := range thieves {
				defer thief.Close()
				require.NotContains(t, s.Addrs(), thief.Addr().String())
			}
			requireServes(t, s)
		})
	}
}

func TestStartGivesUpWithContext(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	require.NoError(t, os.Chmod(filepath.Dir(os.TempDir()), 0o755)) // PostgreSQL runs as nobody if the tests run as root
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, zooKeeper := StartZooKeeper(ctx, ZooKeeperConfig{})
	_, etcd := StartEtcd(ctx, EtcdConfig{})
	_, consul := StartConsul(ctx, ConsulConfig{})
	_, postgres := StartPostgres(ctx, PostgresConfig{})
	for _, err := range []error{zooKeeper, etcd, consul, postgres} {
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestNotInstalled(t *testing.T) {
	jars := classpath
	classpath = []string{t.TempDir() + "/zookeeper.jar"}
	t.Cleanup(func() { classpath = jars })
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	_, err := StartZooKeeper(t.Context(), ZooKeeperConfig{})
	require.EqualError(t, err, "ZooKeeper is not installed: apt-get install zookeeper (or run `make setup STORE=zookeeper`)")
	_, err = StartEtcd(t.Context(), EtcdConfig{})
	require.EqualError(t, err, "etcd v3.7.3 is not built: run `make setup STORE=etcd`")
	_, err = StartConsul(t.Context(), ConsulConfig{})
	require.EqualError(t, err, "consul v1.19.2 is not built: run `make setup STORE=consul`")
	programs := postgresPrograms
	postgresPrograms = t.TempDir() + "/*"
	t.Cleanup(func() { postgresPrograms = programs })
	_, err = StartPostgres(t.Context(), PostgresConfig{})
	require.EqualError(t, err, "PostgreSQL is not installed: apt-get install postgresql (or run `make setup STORE=postgresql`)")
}

func TestInvalidConfig(t *testing.T) {
	_, err := StartZooKeeper(t.Context(), ZooKeeperConfig{Members: -1})
	require.ErrorContains(t, err, "-1 members")
	_, err = StartEtcd(t.Context(), EtcdConfig{Members: -1})
	require.ErrorContains(t, err, "-1 members")
	_, err = StartEtcd(t.Context(), EtcdConfig{Heartbeat: 300 * time.Millisecond})
	require.ErrorContains(t, err, "heartbeat 300ms, election timeout 1s")
	_, err = StartConsul(t.Context(), ConsulConfig{Members: -1})
	require.ErrorContains(t, err, "-1 members")
}

func TestStartSaysWhyTheServerEnded(t *testing.T) {
	_, err := StartEtcd(bounded(t), EtcdConfig{Extra: []string{"--no-such-flag"}})
	require.ErrorContains(t, err, "no-such-flag")
	_, err = StartConsul(bounded(t), ConsulConfig{Extra: `no_such_setting = 1`})
	require.ErrorContains(t, err, "no_such_setting")
	_, err = StartPostgres(bounded(t), PostgresConfig{Extra: map[string]string{"no_such_setting": "1"}})
	require.ErrorContains(t, err, "no_such_setting")
}
