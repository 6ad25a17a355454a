package memory

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// TestHandOverTakesOneRoundTrip on a slow link, if the watches are ordered: the request to withdraw goes to the service, and the
// news to the next in line. What is read anew meanwhile does not hold that up, whenever it began.
func TestHandOverTakesOneRoundTrip(t *testing.T) {
	const trip = 300 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		service := NewService()
		var stores []*Store
		for range 2 {
			st, err := Open(service, &Config{TTL: 3 * time.Second})
			require.NoError(t, err)
			defer func() { require.NoError(t, st.Close()) }()
			st.Faults().Delay(trip / 2)
			stores = append(stores, st)
		}
		leader, err := stores[0].Cast(ctx, "x", "0")
		require.NoError(t, err)
		require.NoError(t, leader.Wait(ctx))
		for i := range 60 {
			next, err := stores[(i+1)%2].Cast(ctx, "x", "next")
			require.NoError(t, err)
			time.Sleep(3*trip + time.Duration(i)*37*time.Millisecond) // both entries are watched, and resyncs are in each phase
			began := time.Now()
			go func() { _ = leader.Withdraw(ctx) }()
			require.NoError(t, next.Wait(ctx))
			require.Equal(t, trip, time.Since(began), "hand-over %d", i)
			leader = next
		}
	})
}

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
	for i := range 1000 {
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
	service.locked(func() { service.watch(w) })
	go w.fire()
	service.locked(func() { service.watch(w) })
	<-fired
}

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
