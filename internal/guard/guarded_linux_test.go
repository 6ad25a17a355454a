package guard

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func lasts(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// eachMode runs a test in each guarded mode that this machine has.
func eachMode(t *testing.T, test func(t *testing.T, m Mode)) {
	for _, m := range []Mode{namespaceMode(false), namespaceMode(true), subreaperMode()} {
		name := string(m.Kind)
		if m.UserNamespace {
			name += " of a user"
		}
		t.Run(name, func(t *testing.T) {
			if _, err := selfTest(t.Context(), m); err != nil {
				t.Skipf("this machine does not have the mode: %v", err)
			}
			test(t, m)
		})
	}
}

func shell(m Mode, script string) Config {
	return Config{Command: []string{"sh", "-c", script}, TTL: 10 * time.Second, Mode: m, StopTimeout: time.Second}
}

func TestExitStatus(t *testing.T) {
	eachMode(t, func(t *testing.T, m Mode) {
		for script, want := range map[string]Result{
			"exit 7":        {Code: 7, Cause: Exited},
			"kill -USR1 $$": {Code: 128 + int(syscall.SIGUSR1), Signal: syscall.SIGUSR1, Cause: Exited},
		} {
			p, err := Start(shell(m, script), lasts(10*time.Second))
			require.NoError(t, err)
			require.Equal(t, want, p.Wait(), script)
		}
	})
}

func TestStopAndKill(t *testing.T) {
	eachMode(t, func(t *testing.T, m Mode) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer r.Close()
		c := shell(m, "trap 'exit 3' TERM; echo >&3; while :; do sleep 0.01; done")
		c.Files = []*os.File{w}
		p, err := Start(c, lasts(10*time.Second))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		_, err = r.Read(make([]byte, 1))
		require.NoError(t, err)
		p.Stop()
		require.Equal(t, Result{Code: 3, Cause: Stopped}, p.Wait())

		p, err = Start(shell(m, "trap '' TERM; sleep 60"), lasts(10*time.Second))
		require.NoError(t, err)
		p.Kill()
		require.Equal(t, Result{Code: 137, Signal: syscall.SIGKILL, Cause: Killed}, p.Wait())
	})
}
