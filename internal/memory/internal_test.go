package memory

import (
	"context"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// These tests read the state of the service, which no store shows.

func (s *Service) sessionsLeft() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

func (s *Service) electionsLeft() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.elections)
}

func (s *Service) watchesLeft() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watches)
}

// TestServiceKeepsNoUnusedElection: neither elections that were only read, nor those whose ballots are gone.
func TestServiceKeepsNoUnusedElection(t *testing.T) {
	service := NewService()
	st, err := Open(service, nil)
	require.NoError(t, err)
	_, err = st.Ballots(t.Context(), "listed")
	require.NoError(t, err)
	leader, err := storetest.Leader(t.Context(), st, "read", nil)
	require.NoError(t, err)
	service.Clear("cleared")
	require.Zero(t, service.electionsLeft())

	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan store.Leader)
	go func() {
		defer close(told)
		for {
			next, err := storetest.Leader(ctx, st, "x", &leader)
			if err != nil {
				return
			}
			leader = next
			told <- next
		}
	}()
	for range 3 { // who follows is told of the next leader of an election that has been forgotten meanwhile
		b, err := st.Cast(t.Context(), "x", "v")
		require.NoError(t, err)
		require.NoError(t, b.Wait(t.Context()))
		acknowledged, err := b.Acknowledge(t.Context(), "v")
		require.NoError(t, err)
		require.Equal(t, acknowledged, <-told)
		require.NoError(t, b.Withdraw(t.Context()))
		require.Zero(t, <-told)
	}
	cancel()
	<-told
	require.Zero(t, service.electionsLeft())

	_, err = st.Cast(t.Context(), "x", "v")
	require.NoError(t, err)
	require.Equal(t, 1, service.electionsLeft())
	require.NoError(t, st.Close())
	require.Zero(t, service.electionsLeft())
	require.Zero(t, service.watchesLeft())
}

// TestCloseLeavesNoSession, however soon after Open it is called: while the session opens, at that moment, and later.
func TestCloseLeavesNoSession(t *testing.T) {
	service := NewService()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 5000 {
		st, err := Open(service, &Config{TTL: time.Hour})
		require.NoError(t, err)
		for range random.IntN(100) {
			runtime.Gosched() // somewhat later each time
		}
		require.NoError(t, st.Close())
		require.Zero(t, service.sessionsLeft(), "after %d times: the session stays for its TTL, an hour here", i)
	}
}

// TestWatchIsSetTwice: a request that is carried out twice sets its watch again, while the line might be delivering the
// first change. The race detector fails if that writes what the line reads.
func TestWatchIsSetTwice(t *testing.T) {
	service := NewService()
	l := &line{kind: OneShot, wake: make(chan struct{}, 1), watches: map[*watch]struct{}{}}
	fired := make(chan struct{})
	w := &watch{key: leaderKey("x"), line: l, tell: func(engine.News) { close(fired) }}
	service.watch(w)
	go w.fire()
	service.watch(w)
	<-fired
}
