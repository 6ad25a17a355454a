package consul_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

// helperVariable makes the test binary lead an election instead: its value is the agent's address, the TTL and the
// election.
const helperVariable = "CONSUL_TEST_LEAD"

// helper leads, and tells of it on standard output. It ends with its standard input.
func helper(where string) {
	parts := strings.SplitN(where, " ", 3)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	if err := leadAndTell(parts[0], parts[1], parts[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {}
}

func leadAndTell(addr, ttl, election string) error {
	d, err := time.ParseDuration(ttl)
	if err != nil {
		return err
	}
	st, err := consul.Open(consul.Config{Addresses: []string{addr}, TTL: d})
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
	fmt.Println("leads")
	return nil
}

// startLeader starts another process and waits until it leads.
func startLeader(t *testing.T, election string, ttl time.Duration) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperVariable+"="+sharedServer(t).Addrs()[0]+" "+ttl.String()+" "+election)
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
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "leads\n", line)
	return cmd
}

// A leader that is killed is replaced within 2.5 s at a TTL of 1 s, on a stock agent, and within twice the TTL and a
// second at 10 s.
func TestKilledLeaderIsReplaced(t *testing.T) {
	for _, c := range []struct{ ttl, bound time.Duration }{
		{short, 2500 * time.Millisecond},
		{long, 2*long + time.Second},
	} {
		t.Run(c.ttl.String(), func(t *testing.T) {
			t.Parallel()
			election := newElection()
			leader := startLeader(t, election, c.ttl)
			next := contend(t, open(t, consul.Config{TTL: c.ttl}), election, "next")
			eventually(t, func() bool { return len(ballotKeys(t, operator(t, sharedServer(t)), election)) == 2 }, "it stands")
			require.NoError(t, leader.Process.Kill())
			killed := time.Now()
			receive(t, next.terms, "the successor's term")
			took := time.Since(killed)
			t.Logf("replaced after %v", took)
			require.Less(t, took, c.bound)
		})
	}
}
