package lifeline

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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

// Files of two file systems may have one inode number. The roots of /proc and /sys have.
func TestIdentity(t *testing.T) {
	proc, err := os.Open("/proc")
	require.NoError(t, err)
	defer proc.Close()
	sys, err := os.Open("/sys")
	require.NoError(t, err)
	defer sys.Close()
	one, err := identify(proc)
	require.NoError(t, err)
	other, err := identify(sys)
	require.NoError(t, err)
	require.Equal(t, one.inode, other.inode)
	require.NotEqual(t, one, other)
}
