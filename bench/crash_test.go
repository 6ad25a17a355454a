package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

const (
	// crashTTL is the session's timeout in BenchmarkCrash.
	crashTTL = 2 * time.Second
	// crashBound is the time within which store/zookeeper says that a crashed leader is replaced.
	crashBound = crashTTL + 2*tick
	// crashes is how many leaders are killed at about the same time, each of an election of its own.
	crashes = 8
)

// BenchmarkCrash measures how long an election is without a leader when its leader's process is killed by SIGKILL:
// from the signal until a successor in this process leads. The metrics are the median and the maximum in seconds, and
// the ratio of the maximum to the bound that the store documents, the session's TTL and two of the server's ticks.
func BenchmarkCrash(b *testing.B) {
	b.Run("zookeeper", func(b *testing.B) {
		server := startZooKeeper(b)
		st := openStore(b, server, crashTTL, &wire{})
		var took []time.Duration
		for round := 0; b.Loop(); round++ {
			var successions []*succession
			for i := range crashes {
				successions = append(successions, newSuccession(b, server, st, fmt.Sprintf("crash/%d/%d", round, i)))
			}
			for _, s := range successions {
				go s.crash()
			}
			for _, s := range successions {
				took = append(took, s.wait(b))
			}
		}
		worst := slices.Max(took)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(quantile(took, 0.5).Seconds(), "p50-s")
		b.ReportMetric(worst.Seconds(), "max-s")
		b.ReportMetric(crashBound.Seconds(), "bound-s")
		b.ReportMetric(ratio(worst, crashBound), "max-ratio")
	})
}

// succession is an election with a leader to be killed and a successor in waiting.
type succession struct {
	holder    *exec.Cmd
	successor *contender
	killed    chan time.Time // receives when the signal was sent
}

// newSuccession returns when the holder leads and the successor's ballot has been cast.
func newSuccession(b *testing.B, server string, st store.Store, election string) *succession {
	b.Helper()
	s := &succession{
		holder:    exec.Command(os.Args[0]),
		successor: newContender(b, st, election, "successor"),
		killed:    make(chan time.Time, 1),
	}
	s.holder.Env = append(os.Environ(), holderServer+"="+server, holderElection+"="+election)
	s.holder.Stderr = os.Stderr
	stdin, err := s.holder.StdinPipe() // closed by Wait, or by our own end
	require.NoError(b, err)
	stdout, err := s.holder.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, s.holder.Start())
	b.Cleanup(func() {
		_ = stdin.Close()
		_ = s.holder.Process.Kill()
		_ = s.holder.Wait()
	})
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(stdout).ReadString('\n')
		line <- text
	}()
	require.Equal(b, holderLeads+"\n", receive(b, line, "the holder to lead"))
	s.successor.stand(b)
	return s
}

// crash kills the holder at some moment between two signs of life, which it sends at least every third of the TTL:
// how long it takes depends on how far the last one is back. Holders started together would all be at the same point.
func (s *succession) crash() {
	time.Sleep(rand.N(crashTTL / 3))
	s.killed <- time.Now()
	_ = s.holder.Process.Kill()
}

// wait returns how long the successor took to lead.
func (s *succession) wait(b *testing.B) time.Duration {
	b.Helper()
	killed := receive(b, s.killed, "the kill")
	won := s.successor.takeOver(b)
	require.NoError(b, s.successor.Resign(b.Context()))
	_ = s.holder.Wait() // it was killed
	return won.Sub(killed)
}

// What a holder is told through its environment, and what it says.
const (
	holderServer   = "LEADERSHIP_BENCH_SERVER"
	holderElection = "LEADERSHIP_BENCH_ELECTION"
	holderLeads    = "leads"
)

// hold is the process to be killed: it leads, says so, and goes on until its standard input ends.
func hold(server, election string) error {
	st, err := zookeeper.Open(zookeeper.Config{Servers: []string{server}, TTL: crashTTL})
	if err != nil {
		return err
	}
	defer st.Close()
	candidate, err := leadership.NewCandidate(st, election, "holder", nil)
	if err != nil {
		return err
	}
	defer candidate.Stop()
	term, err := candidate.Campaign(context.Background())
	if err != nil {
		return err
	}
	if err := term.Acknowledge(context.Background()); err != nil {
		return err
	}
	fmt.Println(holderLeads)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
