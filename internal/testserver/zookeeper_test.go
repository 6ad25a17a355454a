package testserver

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSingleServer(t *testing.T) {
	z := NewZooKeeper(t, ZooKeeperConfig{})
	m := z.Member(0)
	require.Equal(t, []string{m.Addr()}, z.Addrs())
	requireServes(t, z)

	require.NoError(t, m.Kill())
	requireDown(t, z)
	require.NoError(t, m.Kill(), "killing it again must do nothing")
	require.Error(t, m.Pause())
	require.Error(t, m.Resume())

	require.NoError(t, m.Start(bounded(t)))
	requireServes(t, z)
	require.Error(t, m.Start(bounded(t)), "it runs already")

	require.NoError(t, m.Pause())
	require.NoError(t, m.Pause(), "pausing it again must do nothing")
	require.True(t, m.Running())
	silence, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := m.Command(silence, "ruok")
	require.ErrorIs(t, err, context.DeadlineExceeded, "a paused server must not answer")
	_, err = z.Leader()
	require.Error(t, err)

	require.NoError(t, m.Resume())
	requireServes(t, z)

	require.NoError(t, m.Stop())
	requireDown(t, z)
	require.NoError(t, m.Start(bounded(t)))
	requireServes(t, z)

	require.NoError(t, m.Pause())
	require.NoError(t, m.Stop(), "a paused server must stop too")
	requireDown(t, z)
}

func TestEnsemble(t *testing.T) {
	z := NewZooKeeper(t, ZooKeeperConfig{Members: 3})
	require.Len(t, z.Addrs(), 3)
	first := requireServes(t, z)

	require.NoError(t, z.Member(first).Kill())
	require.NoError(t, z.Ready(bounded(t)))
	second := requireServes(t, z)
	require.NotEqual(t, first, second)

	require.NoError(t, z.Member(first).Start(bounded(t)))
	require.NoError(t, z.Ready(bounded(t)))
	require.Equal(t, second, requireServes(t, z), "one that comes back must not take the lead")

	require.NoError(t, z.Member(second).Pause())
	require.NoError(t, z.Ready(bounded(t)))
	require.NotEqual(t, second, requireServes(t, z))
	require.NoError(t, z.Member(second).Resume())
	require.NoError(t, z.Ready(bounded(t)))

	for i := range 3 {
		require.NoError(t, z.Member(i).Stop())
	}
	requireDown(t, z)
	for i := range 3 {
		require.NoError(t, z.Member(i).Start(bounded(t)), "a start must not wait for members that are started later")
	}
	require.NoError(t, z.Ready(bounded(t)))
	requireServes(t, z)
}

func TestConfig(t *testing.T) {
	z := NewZooKeeper(t, ZooKeeperConfig{
		TickTime: 250 * time.Millisecond,
		Extra:    map[string]string{"maxSessionTimeout": "7000", "forceSync": "no"},
	})
	conf, err := z.Member(0).Command(bounded(t), "conf")
	require.NoError(t, err)
	require.Contains(t, conf, "tickTime=250\n")
	require.Contains(t, conf, "maxSessionTimeout=7000\n")

	_, err = StartZooKeeper(t.Context(), ZooKeeperConfig{Members: -1})
	require.ErrorContains(t, err, "-1 members")
}

func TestClose(t *testing.T) {
	z, err := StartZooKeeper(bounded(t), ZooKeeperConfig{})
	require.NoError(t, err)
	require.NoError(t, z.Member(0).Pause())
	require.NoError(t, z.Close())
	requireDown(t, z)
	require.NoDirExists(t, z.dir)
	require.ErrorContains(t, z.Member(0).Start(bounded(t)), "closed")
	require.NoError(t, z.Close(), "closing it again must do nothing")
}

func TestStartGivesUpWithContext(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := StartZooKeeper(ctx, ZooKeeperConfig{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestNotInstalled(t *testing.T) {
	jars := classpath
	classpath = []string{t.TempDir() + "/zookeeper.jar"}
	t.Cleanup(func() { classpath = jars })
	_, err := StartZooKeeper(t.Context(), ZooKeeperConfig{})
	require.EqualError(t, err, "ZooKeeper is not installed: apt-get install zookeeper (or run `make setup`)")
}

// Whatever else happens to a process that is to be paused, the caller must
// not wait for ever.
func TestKillDuringPause(t *testing.T) {
	z := NewZooKeeper(t, ZooKeeperConfig{})
	m := z.Member(0)
	for range 5 {
		killed := make(chan error, 1)
		go func() { killed <- m.Kill() }()
		if err := m.Pause(); err != nil {
			require.ErrorIs(t, err, errNotRunning)
		}
		require.NoError(t, <-killed)
		require.False(t, m.Running())
		require.NoError(t, m.Start(bounded(t)))
	}
}

// requireServes returns the leader once it has seen that all is well.
func requireServes(t *testing.T, z *ZooKeeper) int {
	t.Helper()
	leader, err := z.Leader()
	require.NoError(t, err)
	require.True(t, z.Member(leader).Running())
	answer, err := z.Member(leader).Command(bounded(t), "ruok")
	require.NoError(t, err)
	require.Equal(t, "imok", answer)
	return leader
}

func requireDown(t *testing.T, z *ZooKeeper) {
	t.Helper()
	for _, m := range z.members {
		require.False(t, m.Running())
		_, err := m.Command(bounded(t), "ruok")
		require.Error(t, err)
	}
	_, err := z.Leader()
	require.Error(t, err)
}

// bounded returns a context for one step of a test.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
