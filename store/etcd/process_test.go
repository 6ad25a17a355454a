package etcd_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
)

// helperVariable makes the test binary lead an election instead: its value is the server's address and the election.
const helperVariable = "ETCD_TEST_LEAD"

// pause is how long nothing has to happen in a process for it to have been stopped.
const pause = ttl / 2

// helper leads, and tells of it on standard output: "leads" with its token, and after each pause what IsLeader says
// first. It ends with its standard input.
func helper(where string) {
	addr, election, _ := strings.Cut(where, " ")
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	if err := leadAndTell(addr, election); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func leadAndTell(addr, election string) error {
	st, err := etcd.Open(etcd.Config{Endpoints: []string{addr}, TTL: ttl})
	if err != nil {
		return err
	}
	c, err := leadership.NewCandidate(st, election, "process", nil)
	if err != nil {
		return err
	}
	term, err := c.Campaign(context.Background())
	if err != nil {
		return err
	}
	if err := term.Acknowledge(context.Background()); err != nil {
		return err
	}
	fmt.Println("leads", term.Token())
	for last := time.Now(); ; {
		now := time.Now()
		if leads := c.IsLeader(); now.Sub(last) > pause {
			fmt.Println("resumed", leads)
		}
		last = now
		time.Sleep(100 * time.Microsecond) // the interval at which it asks
	}
}

// process is a helper that runs.
type process struct {
	*exec.Cmd
	lines *bufio.Reader
}

// startLeader starts another process and waits until it leads.
func startLeader(t *testing.T, election string) (p *process, token uint64) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperVariable+"="+sharedServer(t).Addrs()[0]+" "+election)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	p = &process{cmd, bufio.NewReader(stdout)}
	_, err = fmt.Sscanf(p.line(t), "leads %d", &token)
	require.NoError(t, err)
	return p, token
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	line := make(chan string, 1)
	go func() {
		s, _ := p.lines.ReadString('\n')
		line <- strings.TrimSpace(s)
	}()
	return receive(t, line, "a line of the other process")
}

// A process is stopped for longer than the TTL and goes on: its successor leads, and the first that it hears of itself
// is that it does not lead.
func TestProcessIsStopped(t *testing.T) {
	election := newElection()
	p, token := startLeader(t, election)
	c := contend(t, open(t, etcd.Config{}), election, "successor")
	eventually(t, func() bool { return len(values(t, c.store.(*etcd.Store), election)) == 2 }, "the successor stands")
	require.NoError(t, p.Process.Signal(syscall.SIGSTOP))
	start := time.Now()
	term := receive(t, c.terms, "the successor leads")
	t.Logf("it led %v after the other was stopped", time.Since(start))
	require.Greater(t, term.Token(), token)
	require.NoError(t, p.Process.Signal(syscall.SIGCONT))
	require.Equal(t, "resumed false", p.line(t))
	require.True(t, c.IsLeader())
	require.NoError(t, term.Context().Err())
}

// A process is killed: its successor leads within the documented bound, the TTL and a second. The test only reports
// it; how exactly it is kept on a machine of its own is for the benchmarks.
func TestProcessIsKilled(t *testing.T) {
	election := newElection()
	p, token := startLeader(t, election)
	c := contend(t, open(t, etcd.Config{}), election, "successor")
	eventually(t, func() bool { return len(values(t, c.store.(*etcd.Store), election)) == 2 }, "the successor stands")
	require.NoError(t, p.Process.Kill())
	start := time.Now()
	term := receive(t, c.terms, "the successor leads")
	t.Logf("it led %v after the other was killed", time.Since(start))
	require.Greater(t, term.Token(), token)
}
