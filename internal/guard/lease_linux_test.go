package guard

import (
	"bufio"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// brief is a lease of four seconds, with TERM after one, KILL after two, and the kernel's KILL after three.
func brief(t *testing.T, m Mode, script string) (v *supervisor, r *bufio.Reader, deadline instant) {
	file, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	c := shell(m, script)
	c.Files = []*os.File{w}
	path, err := c.path()
	require.NoError(t, err)
	deadline = now().add(4 * time.Second)
	v, err = launch(settings{
		Mode: m.Kind, User: m.UserNamespace, Path: path, Margin: 2 * time.Second, TimerMargin: time.Second, StopTimeout: time.Second,
	}, c, deadline, 500*time.Millisecond)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, v.running(c.Command))
	return v, bufio.NewReader(file), deadline
}

// TestLateRenewal: TERM was sent because a renewal was missing. One that comes then changes nothing.
func TestLateRenewal(t *testing.T) {
	eachGuardedMode(t, func(t *testing.T, m Mode) {
		v, r, deadline := brief(t, m, `trap 'echo term >&3' TERM; while :; do sleep 0.05; done`)
		require.Equal(t, "term", readLine(t, r))
		require.GreaterOrEqual(t, now(), deadline.add(-3*time.Second), "TERM was sent early")
		require.NoError(t, v.renew(lasts(long)))
		result := v.wait()
		require.False(t, v.silent, "the supervisor had to kill the guardian")
		require.Less(t, v.at, deadline, "the renewal has changed something")
		require.GreaterOrEqual(t, v.at, deadline.add(-2*time.Second), "KILL was sent early")
		require.Equal(t, Result{Code: 137, Signal: 9, Cause: Deadline}, result)
	})
}

// TestRenewalWhileStopping: a command that is stopped on request has the rest of its time, by the last renewal.
func TestRenewalWhileStopping(t *testing.T) {
	eachGuardedMode(t, func(t *testing.T, m Mode) {
		p, r := startShell(t, m, `trap 'echo term >&3; sleep 0.2; exit 3' TERM; echo >&3; while :; do sleep 0.05; done`)
		readLine(t, r)
		v := p.r.(*supervisor)
		p.Stop()
		readLine(t, r)
		require.NoError(t, p.Renew(lasts(2*long)))
		require.Equal(t, Result{Code: 3, Cause: Stopped}, p.Wait())
		require.Greater(t, v.kill, now().add(long), "the guardian did not take the renewal")
	})
}

// TestGuardianDiesBeforeTheCommand: the init has been cloned, the command has not been started.
func TestGuardianDiesBeforeTheCommand(t *testing.T) {
	eachGuardedMode(t, func(t *testing.T, m Mode) {
		if m.Kind != Namespace {
			return // no init
		}
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer r.Close()
		c := shell(m, "echo >&3")
		c.Files, c.Env = []*os.File{w}, append(os.Environ(), "LEADERSHIP_TEST_DIE=yes")
		_, err = Start(c, lasts(long))
		require.ErrorContains(t, err, "the guardian ended before the command ran: signal: killed")
		require.NoError(t, w.Close())
		_, err = r.Read(make([]byte, 1))
		require.Error(t, err, "the command ran")
	})
}

// TestSupervisorKillsASilentGuardian: the guardian is stopped, and the kernel's timer is far.
func TestSupervisorKillsASilentGuardian(t *testing.T) {
	eachGuardedMode(t, func(t *testing.T, m Mode) {
		c := shell(m, "exec sleep 1000")
		path, err := c.path()
		require.NoError(t, err)
		v, err := launch(settings{
			Mode: m.Kind, User: m.UserNamespace, Path: path, Margin: 18 * time.Second,
		}, c, now().add(20*time.Second), 0)
		require.NoError(t, err)
		require.NoError(t, v.running(c.Command))
		require.NoError(t, v.call(func() error { return unix.Kill(v.guardian, unix.SIGSTOP) }))
		require.Equal(t, Result{Code: 137, Signal: 9, Cause: Deadline}, v.wait())
		require.True(t, v.silent)
		require.Less(t, v.at, v.end.kill.add(18*time.Second), "it was the kernel")
	})
}
