package bench

import (
	"bufio"
	"context"
	"errors"
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
	"github.com/stretchr/testify/require"
)

// crashes is how many leaders are killed at about the same time, each the leader of its own election.
const crashes = 8

// BenchmarkCrash measures how long an election is without a leader when its leader's process is killed by SIGKILL:
// from the signal until a successor in this process leads. The metrics are the median and the maximum in seconds, and
// the ratio of the maximum to the bound that the store documents.
func BenchmarkCrash(b *testing.B) {
	onEachService(b, func(b *testing.B, s *server) {
		for _, c := range s.crashes {
			b.Run(fmt.Sprintf("ttl=%v", c.ttl), func(b *testing.B) { measureCrash(b, s, c) })
		}
	})
}

func measureCrash(b *testing.B, s *server, c crash) {
	st := s.openStore(b, c.ttl, s.newWire())
	var took []time.Duration
	for round := 0; b.Loop(); round++ {
		var all []*accident
		for i := range crashes {
			all = append(all, newAccident(b, s, st, c.ttl, fmt.Sprintf("crash/%v/%d/%d", c.ttl, round, i)))
		}
		for _, a := range all {
			go a.happen(c.ttl)
		}
		for _, a := range all {
			if d := a.wait(b); d > 0 { // otherwise the machine stood still for most of a TTL, and the lease ended before the kill
				took = append(took, d)
			}
		}
	}
	require.NotEmpty(b, took)
	worst := slices.Max(took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(quantile(took, 0.5).Seconds(), "p50-s")
	b.ReportMetric(worst.Seconds(), "max-s")
	b.ReportMetric(c.bound.Seconds(), "bound-s")
	b.ReportMetric(ratio(worst, c.bound), "max-ratio")
}

// accident is an election with a leader that is going to be killed, and its successor.
type accident struct {
	holder    *exec.Cmd
	successor *contender
	killed    chan time.Time // receives when the signal was sent
}

// newAccident returns when the holder leads and the successor's ballot has been cast.
func newAccident(b *testing.B, s *server, st store.Store, ttl time.Duration, election string) *accident {
	b.Helper()
	a := &accident{
		holder:    exec.Command(os.Args[0]),
		successor: newContender(b, st, election, "successor"),
		killed:    make(chan time.Time, 1),
	}
	a.holder.Env = append(os.Environ(), holderService+"="+s.name, holderServer+"="+s.address,
		holderTTL+"="+ttl.String(), holderElection+"="+election)
	a.holder.Stderr = os.Stderr
	stdin, err := a.holder.StdinPipe() // closed by Wait, or by our own end
	require.NoError(b, err)
	stdout, err := a.holder.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, a.holder.Start())
	b.Cleanup(func() {
		_ = stdin.Close()
		_ = a.holder.Process.Kill()
		_ = a.holder.Wait()
	})
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(stdout).ReadString('\n')
		line <- text
	}()
	require.Equal(b, holderLeads+"\n", receive(b, line, "the holder to lead"))
	a.successor.stand(b)
	return a
}

// happen kills the holder at a random moment of the renewal interval, a third of the TTL at most: how long the takeover
// takes depends on the time since the last renewal. Holders that started together would all be at the same point.
func (a *accident) happen(ttl time.Duration) {
	time.Sleep(rand.N(ttl / 3))
	a.killed <- time.Now()
	_ = a.holder.Process.Kill()
}

// wait returns the time from the signal until the successor led, negative if it led before.
func (a *accident) wait(b *testing.B) time.Duration {
	b.Helper()
	killed := receive(b, a.killed, "the kill")
	won := a.successor.takeOver(b)
	require.NoError(b, a.successor.term.Withdraw(b.Context()))
	_ = a.holder.Wait() // it was killed
	return won.Sub(killed)
}

// The environment variables of a holder, and what it prints.
const (
	holderService  = "LEADERSHIP_BENCH_SERVICE"
	holderServer   = "LEADERSHIP_BENCH_SERVER"
	holderTTL      = "LEADERSHIP_BENCH_TTL"
	holderElection = "LEADERSHIP_BENCH_ELECTION"
	holderLeads    = "leads"
)

// hold is the process that is killed: it leads, prints that, and goes on until its standard input ends.
func hold(s *service, address, ttl, election string) error {
	timeout, err := time.ParseDuration(ttl)
	if err != nil {
		return err
	}
	st, err := s.open(address, timeout, nil)
	if err != nil {
		return err
	}
	defer st.Close()
	candidate, err := leadership.NewCandidate(st, election, "holder", nil)
	if err != nil {
		return err
	}
	defer candidate.Stop()
	if err := takeOver(candidate); err != nil {
		return err
	}
	fmt.Println(holderLeads)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// takeOver leads and acknowledges, and campaigns again if the term was over before that.
func takeOver(candidate *leadership.Candidate) error {
	for {
		term, err := candidate.Campaign(context.Background())
		if err != nil {
			return err
		}
		err = term.Acknowledge(context.Background())
		if !errors.Is(err, leadership.ErrNotElected) {
			return err
		}
		_ = term.Withdraw(context.Background())
	}
}
