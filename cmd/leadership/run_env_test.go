package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
)

// The command gets the variables with which it finds the election, and none that are meant for another process.
func TestCommandEnv(t *testing.T) {
	inherited := []string{
		"PATH=/bin", "LEADERSHIP_STORE=old", "LEADERSHIP_TOKEN=1", "LEADERSHIP_READY_FD=3", "LEADERSHIP_CONFIG=/c",
		"LEADERSHIP_PASSWORD=secret", "NOTIFY_SOCKET=/n", "WATCHDOG_PID=1", "WATCHDOG_USEC=1", "EMPTY=", "ODD",
	}
	const url = "etcd://me@h:2379/?passwordenv=LEADERSHIP_PASSWORD"
	require.Equal(t, []string{
		"PATH=/bin", "LEADERSHIP_CONFIG=/c", "LEADERSHIP_PASSWORD=secret", "EMPTY=", "ODD",
		"LEADERSHIP_STORE=" + url, "LEADERSHIP_ELECTION=job", "LEADERSHIP_VALUE=a b",
	}, commandEnv(inherited, url, "job", "a b"))
	require.Equal(t, []string{"LEADERSHIP_ELECTION=job", "LEADERSHIP_VALUE="},
		commandEnv([]string{"LEADERSHIP_STORE=etcd://me:secret@h/"}, "etcd://me:secret@h/", "job", ""))
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
	r := &runner{
		election: "job", value: "a", store: st, log: slog.New(slog.DiscardHandler),
		manager: manager{socket: name, watchdog: 20 * time.Millisecond, patience: time.Minute},
		start: func(spec, func() time.Duration) (process, error) {
			time.Sleep(50 * time.Millisecond) // for some messages to the watchdog
			return nil, errors.New("no fork")
		},
	}
	require.Equal(t, failed, r.run().kind)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	told := map[string]bool{}
	var first, last string
	for last != "STOPPING=1" {
		buffer := make([]byte, 200)
		n, err := conn.Read(buffer)
		require.NoError(t, err)
		last = string(buffer[:n])
		first = cmp.Or(first, last)
		told[last] = true
	}
	require.Equal(t, "READY=1", first)
	require.Contains(t, told, `STATUS=Waits for its turn in election "job"`)
	require.Contains(t, told, "WATCHDOG=1")
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
