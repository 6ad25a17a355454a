package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// restore calls change, and then brings back the entries that were removed and whose sessions live.
func (s *Service) restore(change func()) {
	back := s.snapshot()
	change()
	back()
}

// snapshot returns a function that brings back the entries that are there now, if their sessions live.
func (s *Service) snapshot() (restore func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, leaders := maps.Clone(s.entries), map[*entry]store.Leader{}
	for _, e := range s.elections {
		leaders[e.holder] = e.leader
	}
	return func() { s.bring(entries, leaders) }
}

// bring brings entries back.
func (s *Service) bring(entries map[string]*entry, leaders map[*entry]store.Leader) {
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

// TestLeadsAfterARestore runs the case of the suite that only a harness of this package can.
func TestLeadsAfterARestore(t *testing.T) {
	cases := conformance.Cases()
	i := slices.IndexFunc(cases, func(c conformance.Case) bool { return c.Name == "leads-after-a-restore" })
	synctest.Test(t, func(t *testing.T) {
		service, ttl := NewService(), 10*time.Second
		open := func(context.Context, conformance.DialFunc) (store.Store, error) {
			return Open(service, &Config{TTL: ttl})
		}
		restored := 0
		cases[i].Check(t, conformance.Harness{
			Open: open, OpenLeast: open, TTL: ttl, Expiry: ttl,
			Faults: func(st store.Store) conformance.Faults { return st.(*Store).Faults() },
			Clear:  func(_ context.Context, election string) error { service.Clear(election); return nil },
			Restore: func(context.Context, string) (func() error, error) {
				back := service.snapshot()
				return func() error { back(); restored++; return nil }, nil
			},
		})
		require.Equal(t, 1, restored)
	})
}
