package testserver

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/whole"
	"github.com/stretchr/testify/require"
)

func TestStartGivesUpWithContext(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	require.NoError(t, os.Chmod(filepath.Dir(os.TempDir()), 0o755)) // PostgreSQL runs as nobody if the tests run as root
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	whole.Need(t)
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

func TestReservePorts(t *testing.T) {
	p, err := reservePorts(50)
	require.NoError(t, err)
	seen := make(map[int]bool)
	for _, port := range p.numbers {
		require.False(t, seen[port], "port %d twice", port)
		seen[port] = true
		_, err := claimPort(port)
		require.Error(t, err, "no other process may reserve port %d", port)
	}
	p.release()
	claim, err := claimPort(p.numbers[0])
	require.NoError(t, err)
	require.NoError(t, claim.Close())
}
