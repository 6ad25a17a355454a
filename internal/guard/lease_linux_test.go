package guard

import (
	"encoding/json"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

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

// TestSupervisorAndGuardianDieBeforeTheCommand: the init alone is left, and starts nothing.
func TestSupervisorAndGuardianDieBeforeTheCommand(t *testing.T) {
	eachGuardedMode(t, func(t *testing.T, m Mode) {
		if m.Kind != Namespace {
			return // no init
		}
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer r.Close()
		data, err := json.Marshal(m)
		require.NoError(t, err)
		v := variant{uid: os.Getuid()}
		cmd := v.command(t, "supervisor", "LEADERSHIP_TEST_MODE="+string(data), "LEADERSHIP_TEST_DIE=both")
		cmd.ExtraFiles = []*os.File{w, w, w, w}
		require.ErrorContains(t, cmd.Run(), "killed")
		require.NoError(t, w.Close())
		_, err = r.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF, "the command ran")
	})
}
