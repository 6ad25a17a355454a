package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/cmd/leadership/internal/guard"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
)

// A manager that does not read its messages does not delay the renewals that the command is told of.
func TestManagerThatDoesNotRead(t *testing.T) {
	dir, err := os.MkdirTemp("", "notify")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	socket := &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"}
	conn, err := net.ListenUnixgram("unixgram", socket)
	require.NoError(t, err)
	defer conn.Close()
	full, err := net.DialUnix("unixgram", nil, socket)
	require.NoError(t, err)
	defer full.Close()
	for err == nil {
		require.NoError(t, full.SetWriteDeadline(time.Now().Add(10*time.Millisecond)))
		_, err = full.Write([]byte("full"))
	}
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)

	st, err := memory.Open(memory.NewService(), nil)
	require.NoError(t, err)
	defer st.Close()
	p := &unread{fake: fake{results: make(chan guard.Result, 1)}, guarded: make(chan struct{})}
	r := &runner{
		manager: manager{socket: socket.Name, patience: time.Minute}, log: slog.New(slog.DiscardHandler), store: st,
		start: func(spec, func() time.Duration) (process, error) { return p, nil },
	}
	candidate, err := leadership.NewCandidate(r.store, "job", "a", nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	over, gone := make(chan outcome, 1), make(chan struct{})
	go func() {
		defer close(gone)
		_ = candidate.Run(ctx, func(_ context.Context, term *leadership.Term) error {
			over <- r.lead(term)
			cancel()
			return nil
		})
	}()
	storetest.Receive(t, p.guarded, "the command is guarded, although the manager does not read")
	for buffer := make([]byte, 100); !strings.HasPrefix(string(buffer), "STATUS=Leads"); {
		_, err := conn.Read(buffer)
		require.NoError(t, err)
	}
	p.results <- guard.Result{Code: 7, Cause: guard.Exited}
	require.Equal(t, outcome{kind: exited, code: 7}, <-over)
	<-gone
}

// unread is a command with a channel that says when it is guarded.
type unread struct {
	fake
	guarded chan struct{} // closed by Wait
}

func (u *unread) Wait() guard.Result {
	close(u.guarded)
	return u.fake.Wait()
}

func getenv(env map[string]string) func(string) string {
	return func(name string) string { return env[name] }
}

// The service manager is told when the service is up, which is when its ballot stands, what it does, and when it ends.
func TestServiceIsTold(t *testing.T) {
	name := "@leadership-test-" + strconv.Itoa(os.Getpid())
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	require.NoError(t, err)
	defer conn.Close()
	st, err := memory.Open(memory.NewService(), nil)
	require.NoError(t, err)
	defer st.Close()
	var told []string // until the end
	alive, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tell := sync.OnceFunc(func() { close(alive) })
		for slices.Index(told, "STOPPING=1") < 0 {
			buffer := make([]byte, 200)
			n, err := conn.Read(buffer)
			if err != nil {
				return // the test is over
			}
			if told = append(told, string(buffer[:n])); told[len(told)-1] == "WATCHDOG=1" {
				tell()
			}
		}
	}()
	r := &runner{
		election: "job", value: "a", store: st, log: slog.New(slog.DiscardHandler),
		manager: manager{socket: name, watchdog: 20 * time.Millisecond, patience: time.Minute},
		start: func(spec, func() time.Duration) (process, error) {
			<-alive
			return nil, errors.New("no fork")
		},
	}
	over := make(chan outcome, 1)
	go func() { over <- r.run() }()
	require.Equal(t, failed, storetest.Receive(t, over, "the end, after a message to the watchdog").kind)
	storetest.Receive(t, ended, "the last message")
	require.Equal(t, "READY=1", told[0])
	require.Contains(t, told, `STATUS=Waits for its turn in election "job"`)
}

func TestManagerOf(t *testing.T) {
	me := fmt.Sprint(os.Getpid())
	for _, test := range []struct {
		env      map[string]string
		watchdog time.Duration
	}{
		{map[string]string{}, 0},
		{map[string]string{"WATCHDOG_USEC": "30000000"}, 30 * time.Second},
		{map[string]string{"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": me}, 30 * time.Second},
		{map[string]string{"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": me + "1"}, 0},
		{map[string]string{"WATCHDOG_USEC": "no"}, 0},
		{map[string]string{"WATCHDOG_USEC": "-1"}, 0},
	} {
		require.Equal(t, test.watchdog, managerOf(getenv(test.env)).watchdog)
	}
}

// Messages reach the manager by a path and by an abstract name. Without a manager none is sent.
func TestManagerIsTold(t *testing.T) {
	dir, err := os.MkdirTemp("", "notify")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	for _, name := range []string{filepath.Join(dir, "notify"), "@leadership-test-" + filepath.Base(dir)} {
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		require.NoError(t, err)
		defer conn.Close()
		m := managerOf(getenv(map[string]string{"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "20000"}))
		m.tell("STATUS=%d", 7)
		ticks, stop := m.pulse()
		defer stop()
		<-ticks
		m.tell("WATCHDOG=1")
		for _, want := range []string{"STATUS=7", "WATCHDOG=1"} {
			buffer := make([]byte, 100)
			n, err := conn.Read(buffer)
			require.NoError(t, err)
			require.Equal(t, want, string(buffer[:n]))
		}
	}
	manager{}.tell("READY=1")
	manager{socket: filepath.Join(dir, "gone"), watchdog: time.Second}.tell("READY=1")
	ticks, stop := manager{watchdog: time.Second}.pulse()
	defer stop()
	require.Nil(t, ticks)
}
