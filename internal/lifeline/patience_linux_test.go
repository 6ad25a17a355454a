package lifeline

import (
	"log/slog"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/stretchr/testify/require"
)

// A program can let reads of its pipe block. It delays neither the lifeline's end nor the end of the wait.
func TestPipeThatBlocks(t *testing.T) {
	t.Parallel()
	reading, writing, err := os.Pipe()
	require.NoError(t, err)
	defer reading.Close()
	defer writing.Close()
	received, err := duplicate(reading, "pipe")
	require.NoError(t, err)
	defer received.Close()
	require.NoError(t, control(reading, func(fd int) error { return syscall.SetNonblock(fd, false) }))
	m := &member{
		server: NewServer(nil, nil, slog.New(slog.DiscardHandler)), pipe: received,
		sessions: map[string]session{"1": {ttl: 50 * time.Millisecond}},
	}
	waited := make(chan error, 1)
	go func() { waited <- m.awaitPipe(time.Now()) }()
	select {
	case err := <-waited:
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	case <-time.After(watchdog):
		_ = writing.Close()
		<-waited
		require.Fail(t, "the wait does not end")
	}
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
