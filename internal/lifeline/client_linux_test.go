package lifeline

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/stretchr/testify/require"
)

// A lifeline that is stopped holds up the program for a moment, and does its work when it continues.
func TestFrozenLifeline(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	line := startAs(t, "lifeline", nil, dir+"/socket")
	awaitSocket(t, dir+"/socket")
	p := startProgram(t, dir+"/socket", lasting, "1")
	stop(t, line.Process.Pid)
	before := p.log.String()
	p.does(t, "add 2")
	p.logs(t, "the lifeline has not answered")
	require.NotContains(t, strings.TrimPrefix(p.log.String(), before), "msg=\"the lifeline has answered")
	p.kill()
	_, _ = p.Process.Wait()
	require.NoError(t, line.Process.Signal(syscall.SIGCONT))
	require.ElementsMatch(t, []string{"ended 1", "ended 2"}, []string{line.line(t), line.line(t)})
}

// A program whose lifeline was late says so when it is there.
func TestLateLifeline(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	line := startAs(t, "lifeline", nil, dir+"/socket")
	awaitSocket(t, dir+"/socket")
	p := startProgram(t, dir+"/socket", lasting, "1")
	stop(t, line.Process.Pid)
	p.does(t, "add 2")
	require.NoError(t, line.Process.Signal(syscall.SIGCONT))
	p.logs(t, "msg=\"the lifeline has answered")
}

// A program goes on without a lifeline, says so once, and finds it when it comes.
func TestNoLifeline(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	p := startProgram(t, dir+"/socket", 2*time.Second)
	p.does(t, "add 1")
	p.logs(t, "there is no lifeline")
	line := startAs(t, "lifeline", nil, dir+"/socket")
	p.logs(t, "there is a lifeline again")
	require.Equal(t, 1, strings.Count(p.log.String(), "there is no lifeline"))
	p.does(t, "add 2")
	p.does(t, "drop 1")
	p.kill()
	require.Equal(t, "ended 2", line.line(t))
}

// A socket of another user gets neither descriptors nor the password.
func TestImpostor(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	dir := shortDir(t)
	line := startAs(t, "lifeline", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: noSuchUser, Gid: noSuchUser}}, dir+"/socket", "0")
	awaitSocket(t, dir+"/socket")
	p := startProgram(t, dir+"/socket", lasting)
	p.does(t, "add 1")
	p.logs(t, "runs as uid 65534, which is neither root nor this program's")
	line.kill()
}

// A lifeline that does not read holds up the opening of a session for 0.1 s, whatever it is sent.
func TestPatience(t *testing.T) {
	meter := stall.Watch(t)
	path := shortDir(t) + "/socket"
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	defer listener.Close()
	service := serviceAt(path, time.Hour)
	service.Secure = &Secure{Roots: make([]byte, 64<<10)}
	c, err := Open(path, "test://", time.Hour, func() (Service, error) { return service, nil }, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer c.Close()
	longest := time.Duration(0)
	for id := range 8 {
		began := time.Now()
		c.Add(itoa(id), nil)
		longest = max(longest, time.Since(began))
	}
	require.Less(t, longest, patience*3/2+meter.Stalled(), "%v", meter)
}

func newClient(t *testing.T, path string, log *lines) *Client {
	t.Helper()
	service := serviceAt(path, lasting)
	c, err := Open(path, "test://", time.Hour, func() (Service, error) { return service, nil }, slog.New(slog.NewTextHandler(log, nil)))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// A program might close a descriptor of the pipe by mistake, and open another file with its number. That file is given
// neither to what guards the work, which would hold nothing, nor to a lifeline.
func TestDescriptorOfAnotherFile(t *testing.T) {
	c := newClient(t, "/run/lifeline", &lines{})
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	replace := func(fd int) error {
		return control(null, func(null int) error { return syscall.Dup3(null, fd, syscall.O_CLOEXEC) })
	}
	require.NoError(t, control(c.writing, replace))
	_, err = c.File()
	require.ErrorContains(t, err, "the program has closed the lifeline's pipe")
	require.NoError(t, control(c.reading, replace))
	listener, address, err := ListenAnywhere()
	require.NoError(t, err)
	defer listener.Close()
	conn, err := net.Dial("unix", address)
	require.NoError(t, err)
	defer conn.Close()
	require.ErrorContains(t, c.greet(conn.(*net.UnixConn)), "the program has closed the lifeline's pipe")
}

// slowLog is a log handler that hangs until it is let go.
type slowLog struct {
	slog.Handler
	letGo chan struct{}
}

func (h slowLog) Handle(context.Context, slog.Record) error { <-h.letGo; return nil }

// A log handler that hangs holds up no session. Only Close waits for it.
func TestLogThatHangs(t *testing.T) {
	t.Parallel()
	letGo := make(chan struct{})
	service := serviceAt("/no/such/lifeline", lasting)
	log := slog.New(slowLog{slog.NewTextHandler(&lines{}, nil), letGo})
	c, err := Open("/no/such/lifeline", "test://", time.Hour, func() (Service, error) { return service, nil }, log)
	require.NoError(t, err)
	added := make(chan struct{})
	go func() { defer close(added); c.Add("1", nil); c.Drop("1"); c.Add("2", nil); c.Drop("2") }()
	select {
	case <-added:
		close(letGo)
	case <-time.After(watchdog):
		close(letGo)
		<-added
		t.Error("a session waits for the log")
	}
	c.Close()
}

// A lifeline that refuses a session after the program has stopped waiting is heard.
func TestLateRefusal(t *testing.T) {
	t.Parallel()
	listener, address, err := ListenAnywhere()
	require.NoError(t, err)
	defer listener.Close()
	log := &lines{}
	c := newClient(t, address, log)
	c.Add("1", nil)
	conn, err := listener.AcceptUnix()
	require.NoError(t, err)
	defer conn.Close()
	pidfd, pipe, err := receiveFiles(conn)
	require.NoError(t, err)
	require.NoError(t, pidfd.Close())
	require.NoError(t, pipe.Close())
	f, err := readFrame(bufio.NewReader(conn))
	require.NoError(t, err)
	require.Equal(t, "1", f.Add.ID)
	require.NoError(t, writeFrame(conn, frame{Refused: "1", Why: "it is another version"}))
	eventually(t, func() bool { return strings.Contains(log.String(), "it is another version") }, "the log says why")
}

// TestReady: a write to a lifeline that reads succeeds though the process has stood still past the deadline, and one to a lifeline
// that does not read fails soon.
func TestReady(t *testing.T) {
	t.Parallel()
	path := filepath.Join(shortDir(t), "socket")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	defer listener.Close()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetWriteDeadline(past)) // as if the process had been stopped after it set one
	n, err := ready{conn}.Write([]byte("frame"))
	require.NoError(t, err)
	require.Equal(t, 5, n)
	n, err = ready{conn}.Write(make([]byte, 8<<20))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Positive(t, n, "there was room for a part")
	require.Less(t, n, 8<<20)
}
