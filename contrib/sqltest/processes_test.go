package sqltest

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The example: a leader that is stopped in its transaction, and continues after the other process has taken over and
// written, is refused.
func TestTwoProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short no server is started")
	}
	binary := filepath.Join(t.TempDir(), "example")
	out, err := exec.Command("go", "build", "-o", binary, "./example").CombinedOutput()
	require.NoError(t, err, string(out))
	each(t, func(t *testing.T, s *scene) {
		if s.waiting == "" {
			return // SQLite: the example's transaction has the file's lock until it ends
		}
		s.table = "leadership_fence"
		require.NoError(t, s.through(t, s.db).Create(t.Context()))
		require.NoError(t, s.through(t, s.db).Reset(t.Context(), "example/writer")) // the directory below is a new store
		s.exec(t, "DROP TABLE IF EXISTS journal")

		elections, err := os.MkdirTemp("/dev/shm", "example")
		require.NoError(t, err)
		defer os.RemoveAll(elections)
		start := func() *process {
			return run(t, binary, "-store", "file://"+elections+"?ttl=2s", "-driver", s.driver, "-source", s.url)
		}
		old := start()
		require.Equal(t, "in the transaction", old.line(t))
		require.NoError(t, old.cmd.Process.Signal(syscall.SIGSTOP))
		next := start()
		require.Equal(t, "in the transaction", next.line(t))
		next.enter(t)
		require.Equal(t, "committed", next.line(t))
		require.NoError(t, old.cmd.Process.Signal(syscall.SIGCONT))
		old.enter(t)
		require.Equal(t, "rolled back: a later leader has raised the fence", old.line(t))
		require.Equal(t, 1, s.count(t, "SELECT count(*) FROM journal"))
		require.Equal(t, 1, s.count(t, "SELECT count(*) FROM journal JOIN leadership_fence ON journal.token = leadership_fence.token"))
	})
}

type process struct {
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

func run(t *testing.T, binary string, args ...string) *process {
	cmd := exec.Command(binary, args...)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &process{cmd, in, bufio.NewReader(out)}
}

func (p *process) line(t *testing.T) string {
	line, err := p.out.ReadString('\n')
	require.NoError(t, err, line)
	return strings.TrimSpace(line)
}

func (p *process) enter(t *testing.T) {
	_, err := io.WriteString(p.in, "\n")
	require.NoError(t, err)
}
