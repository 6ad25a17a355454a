package testserver

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSingleServer(t *testing.T) {
	onEach(t, 1, func(t *testing.T, k kind, s *service) {
		m := s.Member(0)
		require.Equal(t, []string{m.Addr()}, s.Addrs())
		requireServes(t, s)
		if k.name == "ZooKeeper" {
			conf, err := fourLetterWord(bounded(t), m.Addr(), "conf")
			require.NoError(t, err)
			require.Contains(t, conf, "tickTime=250\n")
			require.Contains(t, conf, "maxSessionTimeout=7000\n", "it replaces the default")
		}
		require.ErrorContains(t, m.SaveData(), "stop it")
		require.ErrorContains(t, m.RestoreData(), "SaveData first")
		k.put(t, m.Addr(), "kept")

		require.NoError(t, m.Kill())
		requireDown(t, s)
		require.NoError(t, m.Kill(), "killing it again must do nothing")
		require.Error(t, m.Pause())
		require.Error(t, m.Resume())
		require.NoError(t, m.SaveData())

		require.NoError(t, m.Start(bounded(t)))
		requireServes(t, s)
		require.Equal(t, "kept", k.get(t, m.Addr()))
		require.Error(t, m.Start(bounded(t)), "it runs already")
		require.ErrorContains(t, m.RestoreData(), "stop it")
		k.put(t, m.Addr(), "new")

		require.NoError(t, m.Pause())
		require.NoError(t, m.Pause(), "pausing it again must do nothing")
		require.True(t, m.Running())
		silence, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := m.role(silence)
		require.ErrorIs(t, err, context.DeadlineExceeded, "a paused server must not answer")
		_, err = s.Leader()
		require.Error(t, err)

		require.NoError(t, m.Resume())
		require.NoError(t, s.Ready(bounded(t)))
		requireServes(t, s)
		require.Equal(t, "new", k.get(t, m.Addr()))

		require.NoError(t, m.Stop())
		requireDown(t, s)
		for range 2 {
			require.NoError(t, m.RestoreData(), "the same data must do again")
		}
		require.NoError(t, m.Start(bounded(t)))
		requireServes(t, s)
		require.Equal(t, "kept", k.get(t, m.Addr()), "it does not have what was written after the copy")

		require.NoError(t, m.Pause())
		require.NoError(t, m.Stop(), "a paused server must stop too")
		requireDown(t, s)
	})
}

func TestCluster(t *testing.T) {
	onEach(t, 3, func(t *testing.T, k kind, s *service) {
		require.Len(t, s.Addrs(), 3)
		first := requireServes(t, s)
		k.put(t, s.Member((first+1)%3).Addr(), "kept")

		require.NoError(t, s.Member(first).Kill())
		require.NoError(t, s.Ready(bounded(t)))
		second := requireServes(t, s)
		require.NotEqual(t, first, second)

		require.NoError(t, s.Member(first).Start(bounded(t)))
		require.NoError(t, s.Ready(bounded(t)))
		second = requireServes(t, s)

		require.NoError(t, s.Member(second).Pause())
		require.NoError(t, s.Ready(bounded(t)))
		require.NotEqual(t, second, requireServes(t, s))
		require.NoError(t, s.Member(second).Resume())
		require.NoError(t, s.Ready(bounded(t)))

		for i := range 3 {
			require.NoError(t, s.Member(i).Stop())
		}
		requireDown(t, s)
		for i := range 3 {
			require.NoError(t, s.Member(i).Start(bounded(t)), "a start must not wait for members that are started later")
		}
		require.NoError(t, s.Ready(bounded(t)))
		requireServes(t, s)
		for _, addr := range s.Addrs() {
			require.Equal(t, "kept", k.get(t, addr))
		}
	})
}

// requireClosed closes a service whose first member is paused.
func requireClosed(t *testing.T, s *service) {
	t.Helper()
	m := s.Member(0)
	require.NoError(t, m.Pause())
	require.NoError(t, s.Close())
	requireDown(t, s)
	require.NoDirExists(t, s.dir)
	require.ErrorIs(t, m.Start(bounded(t)), errClosed)
	require.ErrorIs(t, m.SaveData(), errClosed)
	require.NoError(t, s.Close(), "closing it again must do nothing")
}

// A pause returns also if the process is killed meanwhile.
func TestKillDuringPause(t *testing.T) {
	for range 20 {
		p, err := startProcess(exec.Command("sleep", "600"))
		require.NoError(t, err)
		killed := make(chan error, 1)
		go func() { killed <- p.kill() }()
		require.NoError(t, p.pause())
		require.NoError(t, <-killed)
		require.True(t, p.ended())
	}
}

// requireServes returns the leader. On a slow machine the servers might be electing another one.
func requireServes(t *testing.T, s *service) (leader int) {
	t.Helper()
	leader, err := s.awaitLeader(bounded(t))
	require.NoError(t, err)
	require.True(t, s.Member(leader).Running())
	return leader
}

func requireDown(t *testing.T, s *service) {
	t.Helper()
	for _, m := range s.members {
		require.False(t, m.Running())
		_, err := m.role(bounded(t))
		require.Error(t, err)
	}
	_, err := s.Leader()
	require.Error(t, err)
}
