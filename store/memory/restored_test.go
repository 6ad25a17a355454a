package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// restore calls change, and then brings back the entries that were removed and whose sessions live.
func (s *Service) restore(change func()) {
	s.mu.Lock()
	entries, leaders := maps.Clone(s.entries), map[*entry]store.Leader{}
	for _, e := range s.elections {
		leaders[e.holder] = e.leader
	}
	s.mu.Unlock()
	change()
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, b := range entries {
		if s.entries[key] != nil || s.sessions[b.session.id] == nil {
			continue
		}
		s.index++
		b.election = s.election(b.election.name)
		s.entries[key] = b
		b.session.entries = append(b.session.entries, b)
		b.election.ballots = append(b.election.ballots, b)
		slices.SortFunc(b.election.ballots, func(p, q *entry) int { return cmp.Compare(p.token, q.token) })
		s.changed(key)
		if leader, ok := leaders[b]; ok {
			s.lead(b.election, b, leader)
		}
	}
}

// TestBallotThatIsBack, which was withdrawn and is brought back with its acknowledgement: its session ends, and the ballot
// behind leads. That is within as many paces as there are elections, or soon after a reconnection.
func TestBallotThatIsBack(t *testing.T) {
	for _, reconnects := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			service := NewService()
			a, err := Open(service, nil)
			require.NoError(t, err)
			b, err := Open(service, nil)
			require.NoError(t, err)
			defer func() { require.NoError(t, a.Close()); require.NoError(t, b.Close()) }()
			ctx := context.Background()
			for _, election := range []string{"one", "two", "x"} {
				other, err := a.Cast(ctx, election, "other")
				require.NoError(t, err)
				defer func() { _ = other.Withdraw(ctx) }()
			}
			service.Clear("x")
			old, err := a.Cast(ctx, "x", "old")
			require.NoError(t, err)
			require.NoError(t, old.Wait(ctx))
			_, err = old.Acknowledge(ctx, "old")
			require.NoError(t, err)
			next, err := b.Cast(ctx, "x", "next")
			require.NoError(t, err)
			service.restore(func() { require.NoError(t, old.Withdraw(ctx)) })
			began, bound := time.Now(), 4*a.TTL()/4
			if reconnects {
				a.Faults().Break()
				bound = a.TTL() / 4 // the next renewal
			}
			require.NoError(t, next.Wait(ctx))
			require.LessOrEqual(t, time.Since(began), bound+200*time.Millisecond)
		})
	}
}
