package postgres_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/stretchr/testify/require"
)

// TestFrozenProcesses runs the example in three processes. The first one is stopped between two transactions, the
// second one in its transaction, before COMMIT. The server ends that transaction. The successor writes, and what each
// of the two then writes is refused.
func TestFrozenProcesses(t *testing.T) {
	t.Parallel()
	schema, query := newSchema(t)
	binary := filepath.Join(t.TempDir(), "example")
	build := []string{"build", "-o", binary, "./example"}
	if info, _ := debug.ReadBuildInfo(); slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		build = slices.Insert(build, 1, "-race") // so that its packages are compiled already
	}
	out, err := exec.Command("go", build...).CombinedOutput()
	require.NoError(t, err, string(out))
	url := "postgres://" + testserver.PostgresUser + "@" + sharedServer(t).Addrs()[0] + "/postgres?schema=" + schema + "&ttl=" + ttl.String()
	start := func() *program { return startProgram(t, binary, "-store", url) }
	ballots := func(n string) {
		eventually(t, func() bool { return query("SELECT count(*) FROM entry") == n }, "%s ballots", n)
	}
	first := start()
	require.Equal(t, "leads", first.line(t))
	first.write(t)
	first.write(t)
	second := start()
	ballots("2")

	stopped := first.stop(t)
	require.Equal(t, "leads", second.line(t))
	t.Logf("stopped between two transactions: the successor leads after %v", time.Since(stopped))
	second.write(t)
	first.resume(t)
	first.enter(t, 1)
	require.Regexp(t, `^failed: .* \(SQLSTATE LD001\)$`, first.line(t))

	third := start()
	ballots("2") // the first one's has gone
	second.enter(t, 1)
	require.Equal(t, "in the transaction", second.line(t))
	stopped = second.stop(t)
	require.Equal(t, "leads", third.line(t))
	t.Logf("stopped in a transaction: the successor leads after %v", time.Since(stopped))
	third.write(t)
	second.resume(t)
	second.enter(t, 1)
	require.Regexp(t, "^failed: ", second.line(t))
	third.write(t)
	require.Equal(t, "1\n1\n2\n3\n3", query("SELECT dense_rank() OVER (ORDER BY token) FROM public.journal ORDER BY line"))
}

// program is a process that runs the example.
type program struct {
	process *os.Process
	in      io.Writer
	lines   *bufio.Reader
}

func startProgram(t *testing.T, binary string, args ...string) *program {
	cmd := exec.Command(binary, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &program{cmd.Process, in, bufio.NewReader(out)}
}

// line returns the next line of the program's output.
func (p *program) line(t *testing.T) string {
	t.Helper()
	line := make(chan string, 1)
	go func() {
		text, _ := p.lines.ReadString('\n')
		line <- strings.TrimSpace(text)
	}()
	return receive(t, line, "a line of the program")
}

// enter gives the program so many lines of input.
func (p *program) enter(t *testing.T, n int) {
	_, err := io.WriteString(p.in, strings.Repeat("\n", n))
	require.NoError(t, err)
}

// write makes the program write a row. The transaction waits for nothing.
func (p *program) write(t *testing.T) {
	t.Helper()
	p.enter(t, 2)
	require.Equal(t, "in the transaction", p.line(t))
	require.Equal(t, "committed", p.line(t))
}

func (p *program) stop(t *testing.T) time.Time {
	require.NoError(t, p.process.Signal(syscall.SIGSTOP))
	return time.Now()
}

func (p *program) resume(t *testing.T) { require.NoError(t, p.process.Signal(syscall.SIGCONT)) }
