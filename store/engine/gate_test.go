package engine

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestOrderOfReads: those of ballots that might be first come before all others, and otherwise the order is that of asking.
func TestOrderOfReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{taken: places}
		var order []string
		ask := func(k kind, name string) {
			go func() {
				if g.enter(t.Context(), k) == nil {
					order = append(order, name)
				}
			}()
			synctest.Wait()
		}
		ask(reads, "read")
		ask(leads, "lead")
		ask(reads, "second read")
		ask(leads, "second lead")
		for range 4 {
			g.done(reads)
			synctest.Wait()
		}
		require.Equal(t, []string{"lead", "second lead", "read", "second read"}, order)
	})
}

// TestProbeWithoutAPlace: in an outage, too, a read waits for a place, and a request that needs none is the probe.
func TestProbeWithoutAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{taken: places}
		g.begin(time.Now(), errLater)
		ask := func(k kind) *call[struct{}] {
			return start(func() (struct{}, error) { return struct{}{}, g.enter(t.Context(), k) })
		}
		require.True(t, ask(opens).returned(), "the first probe is sent at once")
		read, other := ask(reads), ask(plain)
		time.Sleep(leastPause)
		require.True(t, other.returned())
		time.Sleep(time.Second)
		require.False(t, read.returned())
		g.done(reads)
		require.True(t, read.returned())
		require.Equal(t, places, g.taken)
		g.close()
	})
}

// TestOutageAfterAWait: a request that waits for a place is sent when the wait ends. What was answered before says nothing
// of the request.
func TestOutageAfterAWait(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		for i := range places + 1 {
			go func() { _, _ = s.Observe(context.Background(), fmt.Sprint("y", i), nil) }()
			synctest.Wait()
		}
		time.Sleep(time.Millisecond)
		s.find("Leader").shows(State{})
		waited := s.all()[places-1]
		require.Equal(t, fmt.Sprint("y", places), waited.election)
		time.Sleep(time.Millisecond)
		waited.fail(errLater)
		require.Error(t, s.Engine.gate.err())
	})
}

// TestPauseHoldsNoPlace: reads that have failed pause, and as many others go on meanwhile.
func TestPauseHoldsNoPlace(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		for i := range places {
			s.cast(uint64(i+1), Place{})
		}
		require.Equal(t, places, s.count("Entry"))
		for range places {
			s.find("Entry").fail(Answered(errLater))
		}
		s.cast(100, Place{})
		require.Equal(t, 1, s.count("Entry"))
	})
}

// TestBallotThatMightLeadGoesFirst, before all reads that wait for a place.
func TestBallotThatMightLeadGoesFirst(t *testing.T) {
	playWaiting(t, Place{Nearest: "other", More: true}, func(t *testing.T, s *scene, _ *ballot, _, prev *request) {
		for i := range 2 * places {
			go func() { _, _ = s.Observe(t.Context(), fmt.Sprint("y", i), nil) }()
		}
		require.Equal(t, places, s.count("Leader"))
		next := func(op string) *request {
			require.Zero(t, s.count(op))
			s.find("Leader").shows(State{})
			require.Equal(t, 1, s.count(op))
			require.Equal(t, places-1, s.count("Leader"))
			return s.find(op)
		}
		prev.tells(News{Over: true}) // it might have gone
		prev = next("Entry").shows(other)
		prev.goes()
		next("Ahead")
	})
}

// TestSilentWatchIsReadInItsTurn: with N things to read, within N paces, however many ballots come and go meanwhile.
func TestSilentWatchIsReadInItsTurn(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.leading(1)
		s.leading(2)
		s.waitingBehind(behind) // its watches are silent from now on
		read := 0
		for i := range 20 {
			token := uint64(100 + i)
			short, _ := s.leading(token)
			time.Sleep(pace)
			for s.count("Entry") > 0 {
				r := s.find("Entry")
				switch r.key {
				case "other":
					read++
					r.shows(other)
				default:
					var token uint64
					_, err := fmt.Sscanf(r.key, "own%d", &token)
					require.NoError(t, err)
					r.shows(State{Token: token})
				}
			}
			s.withdraw(t.Context(), short)
			s.find("Remove").answer(answer{})
		}
		require.GreaterOrEqual(t, read, 4, "20 paces, and 4 to read at most at once")
	})
}

// TestPlaceOfARequestThatHasGone is given back, also if the request was let through at the moment at which it went.
func TestPlaceOfARequestThatHasGone(t *testing.T) {
	for range 50 { // select is random
		synctest.Test(t, func(t *testing.T) {
			g := &gate{taken: places}
			ctx, cancel := context.WithCancel(t.Context())
			var err error
			go func() { err = g.enter(ctx, reads) }()
			synctest.Wait()
			g.mu.Lock()
			cancel()
			g.give(reads)
			g.mu.Unlock()
			synctest.Wait()
			if err == nil {
				g.done(reads)
			} else {
				require.ErrorIs(t, err, store.ErrUnavailable)
			}
			require.Equal(t, places-1, g.taken)
		})
	}
}
