//go:build unix

package storetest

import (
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// LeaderIsStopped stops a process that leads, on the store that has the URL, for longer than the TTL, and continues it.
// Its successor leads, and the first answer of IsLeader in the process that continues is false.
func LeaderIsStopped(t *testing.T, url string, successor store.Store) {
	p, c := succession(t, url, successor)
	require.NoError(t, p.Process.Signal(syscall.SIGSTOP))
	term, _ := c.succeeds(t, p)
	require.NoError(t, p.Process.Signal(syscall.SIGCONT))
	require.Equal(t, "resumed false", p.line(t))
	require.True(t, c.IsLeader())
	require.NoError(t, term.Context().Err())
}

// LeaderIsKilled kills a process that leads, on the store that has the URL, and what else must end at the same time,
// and returns the time until its successor leads.
func LeaderIsKilled(t *testing.T, url string, successor store.Store, also ...func()) time.Duration {
	p, c := succession(t, url, successor)
	require.NoError(t, p.Process.Kill())
	for _, end := range also {
		end()
	}
	_, took := c.succeeds(t, p)
	return took
}

// succession starts a leader and a contender that stands behind it.
func succession(t *testing.T, url string, st store.Store) (leader *process, successor *Contender) {
	t.Helper()
	election := NewElection()
	leader = startLeader(t, url, election)
	successor = Contend(t, st, election, "successor")
	Eventually(t, func() bool { return len(Values(t, st, election)) == 2 }, "the successor stands")
	return leader, successor
}

// succeeds waits for the term after that of a leader whose end begins now.
func (c *Contender) succeeds(t *testing.T, leader *process) (term *leadership.Term, took time.Duration) {
	t.Helper()
	start := time.Now()
	term = Receive(t, c.Terms, "the successor leads")
	took = time.Since(start)
	t.Logf("the successor led after %v", took)
	require.Greater(t, term.Token(), leader.token)
	return term, took
}
