package lifeline

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// worlds are those of the tests that run, by path.
var worlds sync.Map

// serviceAt is the service of a session that is told to the lifeline at a place.
func serviceAt(place string, ttl time.Duration) Service {
	return Service{Scheme: "test", TTL: ttl, Servers: []string{place}, Password: "secret"}
}

// lasting is a TTL that no test waits for. A program that has not reached its lifeline tries again after it.
const lasting = 30 * time.Second

// process is another process.
type process struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	log *lines
}

func (p *process) kill() { _ = p.Process.Kill() }

func (p *process) line(t *testing.T) string {
	t.Helper()
	line, err := p.out.ReadString('\n')
	require.NoError(t, err, line)
	return strings.TrimSpace(line)
}

func (p *process) says(t *testing.T, line string) {
	t.Helper()
	_, err := io.WriteString(p.in, line+"\n")
	require.NoError(t, err)
}

// does tells the program what to do, and waits for that.
func (p *process) does(t *testing.T, line string) {
	t.Helper()
	p.says(t, line)
	require.Equal(t, "done", p.line(t))
}

// asks returns the answer of the program.
func (p *process) asks(t *testing.T, line string) int {
	t.Helper()
	p.says(t, line)
	number, err := strconv.Atoi(p.line(t))
	require.NoError(t, err)
	return number
}

// isKnown waits until the lifeline has answered that it knows a session.
func (p *process) isKnown(t *testing.T, id string) {
	t.Helper()
	eventually(t, func() bool { return p.asks(t, "known "+id) == 1 }, "session %s is known", id)
}

// logs waits until the process has logged a text.
func (p *process) logs(t *testing.T, text string) {
	t.Helper()
	eventually(t, func() bool { return strings.Contains(p.log.String(), text) }, "the log says %q", text)
}

// startAs starts the test binary in a role. It is killed at the end of the test.
func startAs(t *testing.T, role string, attr *syscall.SysProcAttr, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command("/proc/self/exe", args...), log: &lines{}}
	p.Env = append(os.Environ(), roleVariable+"="+role, "GORACE=atexit_sleep_ms=0")
	p.SysProcAttr, p.Stderr = attr, io.MultiWriter(p.log, t.Output())
	var err error
	p.in, err = p.StdinPipe()
	require.NoError(t, err)
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	p.out = bufio.NewReader(out)
	require.NoError(t, p.Start())
	t.Cleanup(func() { p.kill(); _ = p.Wait() })
	return p
}

// startProgram starts a program with sessions that the lifeline knows.
func startProgram(t *testing.T, place string, ttl time.Duration, ids ...string) *process {
	t.Helper()
	p := startAs(t, "program", nil, place, ttl.String())
	require.Equal(t, "ready", p.line(t))
	for _, id := range ids {
		p.does(t, "add "+id)
		p.isKnown(t, id)
	}
	return p
}

func newReader(r io.Reader) *bufio.Reader { return bufio.NewReader(r) }

// lines keeps what a process logs.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// world is a lifeline in the test's process, with what it has ended.
type world struct {
	*testing.T
	server *Server
	path   string
	served chan struct{}
	ended  chan string // ids; has room for all
	mu     sync.Mutex
	fails  func(id string) error // guarded by mu: what ending a session returns; nil: nil
}

func (w *world) serve() {
	w.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: w.path, Net: "unix"})
	require.NoError(w, err)
	w.server, w.served = NewServer(listener, func(uint32) bool { return false }, slog.New(slog.NewTextHandler(w.Output(), nil))), make(chan struct{})
	go func() { defer close(w.served); w.server.Serve() }()
}

func (w *world) stop() {
	w.server.Close()
	<-w.served
}

// End implements Ender.
func (w *world) End(_ context.Context, id string, handover []byte) error {
	if string(handover) != "handover of "+id {
		w.Errorf("%q was handed over for %q", handover, id)
	}
	w.mu.Lock()
	fails := w.fails
	w.mu.Unlock()
	if fails != nil {
		if err := fails(id); err != nil {
			return err
		}
	}
	w.ended <- id
	return nil
}

// Close implements Ender.
func (w *world) Close() error { return nil }

// next waits until a session has been ended, and returns its id.
func (w *world) next() string {
	w.Helper()
	return receive(w, w.ended, "the end of a session")
}

// ends waits until a session has been ended, which is the next.
func (w *world) ends(id string) {
	w.Helper()
	require.Equal(w, id, w.next())
}

// rests makes sure that no session is ended for a while. A lifeline that breaks its rule ends it within a millisecond.
func (w *world) rests() {
	w.Helper()
	select {
	case id := <-w.ended:
		require.Fail(w, "a session was ended", id)
	case <-time.After(200 * time.Millisecond):
	}
}

// eventually waits for a condition.
func (w *world) eventually(holds func() bool, what string) {
	w.Helper()
	eventually(w, holds, "%s", what)
}

// members is how many stores are served.
func (w *world) members() int {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	return len(w.server.all)
}

// sessions is how many sessions the server knows.
func (w *world) sessions() (n int) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	for m := range w.server.all {
		m.mu.Lock()
		n += len(m.sessions)
		m.mu.Unlock()
	}
	return n
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "lifeline") // t.TempDir's path might be longer than an address may be
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &world{T: t, path: filepath.Join(dir, "socket"), ended: make(chan string, 10000)}
	worlds.Store(w.path, w)
	t.Cleanup(func() { worlds.Delete(w.path) })
	w.serve()
	t.Cleanup(func() { w.stop() })
	return w
}

var errAway = errors.New("the service does not answer")

// The service of a session has the place of its lifeline as its server. Lifelines in processes of their own print.
func init() {
	Register("test", func(s Service) (Ender, error) {
		if w, ok := worlds.Load(s.Servers[0]); ok {
			return w.(*world), nil
		}
		return printer{}, nil
	})
}

// noSuchUser is a user that the tests may take as root.
const noSuchUser = 65534

func needsRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("another user's process takes root")
	}
}

// shortDir returns a directory whose path is short enough for a socket, and which all users may use.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lifeline")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o777))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// state is a process's, as /proc tells it; empty if there is no such process.
func state(pid int) string {
	status, _ := os.ReadFile("/proc/" + itoa(pid) + "/stat")
	_, rest, _ := strings.Cut(string(status), ") ")
	return rest
}

// stop stops a process, and waits until it has stopped.
func stop(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	eventually(t, func() bool { return strings.HasPrefix(state(pid), "T") }, "process %d stops", pid)
}

func awaitSocket(t *testing.T, path string) {
	t.Helper()
	eventually(t, func() bool {
		conn, err := net.Dial("unix", path)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, "a lifeline listens")
}

func probe(attr *syscall.SysProcAttr) error {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = attr
	return cmd.Run()
}

func itoa(n int) string { return strconv.Itoa(n) }

// isTest reports whether a path is that of this test binary.
func isTest(path string) bool {
	own, err := os.Readlink("/proc/self/exe")
	return err == nil && own == path
}

// watchdog ends a wait that has failed. Package storetest can't be imported: it imports this package.
const watchdog = 2 * time.Minute

// eventually waits until the condition holds.
func eventually(t testing.TB, condition func() bool, what string, args ...any) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(watchdog); !condition(); {
		select {
		case <-tick.C:
		case <-end:
			require.FailNow(t, "it did not happen: "+fmt.Sprintf(what, args...))
		}
	}
}

// receive takes the next value of a channel.
func receive[T any](t testing.TB, ch <-chan T, what string, args ...any) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(watchdog):
		require.FailNow(t, "it did not come: "+fmt.Sprintf(what, args...))
		panic("unreachable")
	}
}
