package all_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lifeline"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// programVariable makes the test binary a program that leads an election until it is told how to die.
const programVariable = "LEADERSHIP_TEST_PROGRAM"

// programMain does not return in such a program. Its arguments are the URL of the store, and the election.
func programMain() {
	if os.Getenv(programVariable) == "" {
		return
	}
	ctx := context.Background()
	st, err := store.Open(ctx, os.Args[1], &store.Options{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		fmt.Println("refused:", err)
		os.Exit(0)
	}
	for {
		b, err := st.Cast(ctx, os.Args[2], "program")
		if err == nil {
			err = b.Wait(ctx)
		}
		if err == nil {
			_, err = b.Acknowledge(ctx, "program")
		}
		if err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		fmt.Println("leads")
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			switch in.Text() {
			case "panic":
				panic("the test says so")
			case "exit":
				os.Exit(3)
			case "close":
				fmt.Println(st.Close())
			}
		}
		os.Exit(0)
	}
}

// program is a process that leads.
type program struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startProgram starts a program, and waits until it leads.
func startProgram(t *testing.T, url, election string, env ...string) *program {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", url, election)
	cmd.Env = append(os.Environ(), append(env, programVariable+"=1", "GORACE=atexit_sleep_ms=0")...)
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &program{cmd, in, bufio.NewReader(out)}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := p.out.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "leads\n", line)
	return p
}

func (p *program) say(t *testing.T, line string) {
	_, err := io.WriteString(p.in, line+"\n")
	require.NoError(t, err)
}

// serveLifeline serves a lifeline at a path until the test ends.
func serveLifeline(t *testing.T) (path string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "lifeline") // t.TempDir's path might be longer than an address may be
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path = dir + "/socket"
	listener, err := lifeline.Listen(path, false)
	require.NoError(t, err)
	s := lifeline.NewServer(listener, func(uint32) bool { return false }, slog.New(slog.NewTextHandler(t.Output(), nil)))
	served := make(chan struct{})
	go func() { defer close(served); s.Serve() }()
	t.Cleanup(func() { s.Close(); <-served })
	return path
}

// withLifeline are the stores that a lifeline is for, with TTLs that the servers grant.
var withLifeline = map[string]string{"zookeeper": "ttl=10s", "etcd": "ttl=10s", "consul": "ttl=10s"}

// A waiter leads as soon as the leader's process is dead, however it dies, and long before the TTL.
func TestLifeline(t *testing.T) {
	deaths := map[string]func(t *testing.T, p *program){
		"SIGKILL": func(t *testing.T, p *program) { require.NoError(t, p.Process.Kill()) },
		"panic":   func(t *testing.T, p *program) { p.say(t, "panic") },
		"os.Exit": func(t *testing.T, p *program) { p.say(t, "exit") },
		"SIGSEGV": func(t *testing.T, p *program) { require.NoError(t, p.Process.Signal(syscall.SIGSEGV)) },
	}
	for kind, options := range withLifeline {
		for place, at := range map[string]func(*testing.T) string{
			"self": func(*testing.T) string { return "self" }, "path": serveLifeline,
		} {
			for name, die := range deaths {
				t.Run(strings.Join([]string{kind, place, name}, "/"), func(t *testing.T) {
					election := newElection()
					p := startProgram(t, on(t, kind, options+"&lifeline="+at(t)), election)
					rival := cast(t, open(t, on(t, kind, options), nil), election, "rival")
					die(t, p)
					began := time.Now()
					require.NoError(t, rival.Wait(soon(t)))
					took := time.Since(began)
					require.Less(t, took, 5*time.Second, "half of the TTL")
					t.Log(took)
				})
			}
		}
	}
}
