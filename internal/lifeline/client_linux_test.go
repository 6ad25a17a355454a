package lifeline

import (
	"bufio"
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
	service := Service{Scheme: "test", TTL: time.Hour, Servers: []string{"server"}}
	c, err := Open(path, "test://", time.Hour, func() (Service, error) { return service, nil }, slog.New(slog.NewTextHandler(log, nil)))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// A program might close a descriptor of the pipe by mistake, and open another file with the number. That file is neither
// given to what guards the work, which would hold nothing, nor to a lifeline.
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

// A lifeline that refuses a session after the program has stopped waiting is heard.
func TestLateRefusal(t *testing.T) {
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
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "it is another version") }, 10*time.Second, time.Millisecond)
}
