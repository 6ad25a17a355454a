package file

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-leadership/leadership/internal/localdir"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// TestMain runs the tests or, if a test has started this program again, the role of that process.
func TestMain(m *testing.M) {
	if role, ok := os.LookupEnv(roleVariable); ok {
		play(role)
		return
	}
	syscall.Umask(0o022)
	flag.Parse()
	if err := flag.Set("test.parallel", "32"); err != nil { // most of them wait most of the time
		panic(err)
	}
	if err := os.Setenv("TMPDIR", inMemory()); err != nil { // for the tests' directories
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// realDisk is the directory of TestOnDisk.
var realDisk = localdir.Temp()

// inMemory returns a directory on a file system in memory, if there is one: the tests make thousands of files, and a disk
// would take most of their time.
func inMemory() string {
	const shm = "/dev/shm"
	if kind, err := fileSystem(shm); err == nil && kind == tmpfs && syscall.Access(shm, 7) == nil {
		return shm
	}
	return localdir.Temp()
}

// roleVariable is the variable that makes this program another process of a test. It holds the name of a role, a colon,
// and the role's argument in JSON.
const roleVariable = "FILE_TEST_ROLE"

// roles are what such a process can do. It ends when its standard input does, and fails with an error.
var roles = map[string]func(told []byte) error{}

// role adds a role, and returns its name.
func role[T any](name string, do func(T) error) string {
	roles[name] = func(told []byte) error {
		var t T
		if err := json.Unmarshal(told, &t); err != nil {
			return err
		}
		return do(t)
	}
	return name
}

// play runs a role and ends the process.
func play(text string) {
	name, told, _ := strings.Cut(text, ":")
	go func() { // until the test is over, however it ends
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	if err := roles[name]([]byte(told)); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// process is another process of a test.
type process struct {
	*exec.Cmd
	stdin  io.Closer
	errors *output
	done   chan struct{} // closed when the process has ended
}

// kill ends the process at once, and waits for its end.
func (p *process) kill() {
	_ = p.Process.Kill()
	<-p.done
	_ = p.stdin.Close()
}

// hasEnded reports whether the process has ended.
func (p *process) hasEnded() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// ended waits for a process that ends by itself, and requires that it succeeded.
func (p *process) ended(t *testing.T, ctx context.Context) {
	t.Helper()
	select {
	case <-p.done:
	case <-ctx.Done():
		_ = p.Process.Signal(syscall.SIGQUIT)
		<-p.done
		t.Fatalf("the process does not end: %s", p.errors)
	}
	require.True(t, p.ProcessState.Success(), "%v: %s", p.ProcessState, p.errors)
}

// output is what a process writes to its standard error.
type output struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// start starts a process in a role. The end of the test ends it. set changes how it is started.
func start(t *testing.T, role string, told any, set ...func(*exec.Cmd)) *process {
	t.Helper()
	text, err := json.Marshal(told)
	require.NoError(t, err)
	p := &process{Cmd: exec.Command("/proc/self/exe"), errors: &output{}, done: make(chan struct{})}
	p.Env = append(os.Environ(), roleVariable+"="+role+":"+string(text))
	p.Stderr = p.errors
	p.stdin, err = p.StdinPipe()
	require.NoError(t, err)
	for _, f := range set {
		f(p.Cmd)
	}
	require.NoError(t, p.Start())
	go func() { // the cleanup below waits for it
		defer close(p.done)
		_ = p.Wait()
	}()
	t.Cleanup(p.kill)
	return p
}
