package haproxy

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// start starts a process that ends with the test, also if the test's own process is killed. It returns a function that
// kills it and waits for its end.
func start(t testing.TB, cmd *exec.Cmd) (kill func()) {
	t.Helper()
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	started, ended := make(chan error), make(chan struct{})
	go func() { // the kernel sends Pdeathsig when the thread that started the process ends
		defer close(ended)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	require.NoError(t, <-started)
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	t.Cleanup(func() {
		kill()
		if t.Failed() {
			t.Logf("%s: %s", cmd.Args[0], &errs)
		}
	})
	return kill
}

// member is one of the processes behind HAProxy, as the test sees it.
type member struct {
	listens
	name string
	cmd  *exec.Cmd
	kill func()

	mu       sync.Mutex
	checks   map[string][]check // guarded by mu, as requests: by the balancer
	requests []request
	read     chan struct{} // closed when all that the process has written is read
}

// begin starts a process behind HAProxy.
func begin(t testing.TB, name, url string) *member {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	m := &member{name: name, cmd: exec.Command(program), checks: map[string][]check{}, read: make(chan struct{})}
	m.cmd.Env = append(os.Environ(), memberVariable+"="+name+" "+url)
	out, in, err := os.Pipe()
	require.NoError(t, err)
	m.cmd.Stdout = in
	m.kill = start(t, m.cmd)
	require.NoError(t, in.Close())
	first := make(chan listens, 1)
	go func() {
		defer close(m.read)
		defer out.Close()
		lines := json.NewDecoder(out)
		for {
			var l line
			if lines.Decode(&l) != nil {
				return
			}
			m.take(l, first)
		}
	}()
	t.Cleanup(m.end)
	m.listens = storetest.Receive(t, first, "a process listens")
	return m
}

func (m *member) take(l line, first chan<- listens) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case l.Listens != nil:
		first <- *l.Listens
	case l.Check != nil:
		m.checks[l.Check.By] = append(m.checks[l.Check.By], *l.Check)
	case l.Request != nil:
		m.requests = append(m.requests, *l.Request)
	}
}

// end kills the process. All that it has written is read then.
func (m *member) end() {
	m.kill()
	<-m.read
}

// checked returns how many checks of a balancer the process has answered.
func (m *member) checked(balancer string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.checks[balancer])
}

// refused returns how many requests from a balancer the process has refused.
func (m *member) refused(balancer string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.requests {
		if !r.Leads && strings.HasPrefix(r.Path, "/"+balancer+"/") {
			n++
		}
	}
	return n
}

// last returns when the last request arrived.
func (m *member) last() (last time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.requests {
		if r.Arrived.After(last) {
			last = r.Arrived
		}
	}
	return last
}

// is returns the code of an answer of /leader or /follower.
func (m *member) is(t testing.TB, path string) int {
	t.Helper()
	code, err := ask("http://" + m.Status + path)
	require.NoError(t, err)
	return code
}

// cut cuts the link between the process and the store.
func (m *member) cut(t testing.TB) {
	t.Helper()
	code, err := ask("http://" + m.App + "/cut")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
}

// freeze stops the process. All its threads stand still when freeze returns.
func (m *member) freeze(t testing.TB) {
	t.Helper()
	require.NoError(t, m.cmd.Process.Signal(unix.SIGSTOP))
	for {
		err := unix.Waitid(unix.P_PID, m.cmd.Process.Pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			require.NoError(t, err)
			return
		}
	}
}

// thaw lets the process go on.
func (m *member) thaw(t testing.TB) {
	t.Helper()
	require.NoError(t, m.cmd.Process.Signal(unix.SIGCONT))
}

// ask sends a request on a connection of its own.
func ask(url string) (code int, err error) {
	transport := &http.Transport{DisableKeepAlives: true}
	answer, err := (&http.Client{Transport: transport, Timeout: storetest.Watchdog}).Get(url)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}
