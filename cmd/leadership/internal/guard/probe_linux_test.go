package guard

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// fifo is a named pipe that a probe has open.
type fifo struct {
	path string
	file *os.File
}

func newFifo(t *testing.T) fifo {
	path := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	return fifo{path, file}
}

// begun waits until the probe has written a byte.
func (f fifo) begun(t *testing.T) {
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if n, _ := f.file.Read(make([]byte, 1)); n > 0 { // end of file, until there is a writer
			return
		}
	}
	require.FailNow(t, "the probe does not begin")
}

// ended waits until no process has it open.
func (f fifo) ended(t *testing.T) {
	require.NoError(t, f.file.SetReadDeadline(time.Now().Add(long)))
	_, err := f.file.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "the probe goes on")
}

// stubborn is a probe of two processes, which ignore TERM.
func (f fifo) stubborn() []string {
	return []string{"sh", "-c", `trap "" TERM; exec >"$0"; echo; sleep 1000 & sleep 1000`, f.path}
}

// TestProbeOfADeadSupervisor checks that a probe ends with the lease at the latest, also if the supervisor is killed or
// stopped.
func TestProbeOfADeadSupervisor(t *testing.T) {
	t.Parallel()
	eachGuardedMode(t, func(t *testing.T, m Mode) {
		t.Parallel()
		for name, signal := range map[string]unix.Signal{"killed": unix.SIGKILL, "stopped": unix.SIGSTOP} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f := newFifo(t)
				data, err := json.Marshal(m)
				require.NoError(t, err)
				cmd := variant{uid: os.Getuid()}.command(t, "probe", "LEADERSHIP_TEST_MODE="+string(data), "LEADERSHIP_TEST_FIFO="+f.path)
				cmd.Stderr = os.Stderr
				require.NoError(t, cmd.Start())
				defer func() {
					_ = cmd.Process.Kill()
					_ = cmd.Wait()
				}()
				f.begun(t)
				require.NoError(t, cmd.Process.Signal(signal))
				f.ended(t)
			})
		}
	})
}

func init() { parts["probe"] = playProbe }

func playProbe() {
	var m Mode
	must(json.Unmarshal([]byte(os.Getenv("LEADERSHIP_TEST_MODE")), &m))
	c := shell(m, "exec sleep 1000")
	c.TTL, c.StopTimeout = 10*time.Second, 0
	p, err := Start(c, lasts(c.TTL))
	must(err)
	_, err = p.Run(context.Background(), fifo{path: os.Getenv("LEADERSHIP_TEST_FIFO")}.stubborn())
	must(err)
}

// TestProbeEnds checks that a probe is killed with its children when it is cancelled, and when the command is stopped
// or, unguarded, has ended.
func TestProbeEnds(t *testing.T) {
	eachMode(t, func(t *testing.T, m Mode) {
		f := newFifo(t)
		p, r := startShell(t, m, `trap "" TERM; echo >&3; while :; do sleep 0.01; done`)
		readLine(t, r)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := p.Run(ctx, f.stubborn())
			ended <- err
		}()
		f.begun(t)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		f.ended(t)

		f = newFifo(t)
		go func() {
			_, err := p.Run(t.Context(), f.stubborn())
			ended <- err
		}()
		f.begun(t)
		if m.Kind == Unguarded {
			p.Kill()
			<-ended
			f.ended(t)
			p.Wait()
			return
		}
		p.Stop(10 * time.Second)
		require.NoError(t, <-ended)
		f.ended(t)
		_, err := p.Run(t.Context(), []string{"true"})
		require.ErrorContains(t, err, "the command is being stopped")
		p.Kill()
		p.Wait()
	})
}

// TestProbeSeesTheCommand checks that both are in one PID namespace, and have the same environment and directory.
func TestProbeSeesTheCommand(t *testing.T) {
	eachMode(t, func(t *testing.T, m Mode) {
		dir := t.TempDir()
		p, r := startShell(t, m, `echo $$ >pid; echo >&3; exec sleep 1000`, func(c *Config) {
			c.Dir, c.Env = dir, append(os.Environ(), "OF=both")
		})
		readLine(t, r)
		code, err := p.Run(t.Context(), []string{"sh", "-c", `[ "$OF" = both ] && kill -0 $(cat pid) && ! read x`})
		require.NoError(t, err)
		require.Zero(t, code)
		p.Kill()
		p.Wait()
	})
}

// TestProbeThatIsTooLong checks that a command line too long for execve is refused.
func TestProbeThatIsTooLong(t *testing.T) {
	eachGuardedMode(t, func(t *testing.T, m Mode) {
		p, _ := startShell(t, m, "exec sleep 1000")
		_, err := p.Run(t.Context(), []string{"sh", "-c", strings.Repeat(":;", maxMessage)})
		require.ErrorIs(t, err, unix.E2BIG)
		p.Kill()
		p.Wait()
	})
}
