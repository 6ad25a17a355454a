package engine

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

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
			g.leave(reads)
			synctest.Wait()
		}
		require.Equal(t, []string{"lead", "second lead", "read", "second read"}, order)
	})
}

// TestTurnWithoutAPlace: in an outage, too, a read waits for a place, and the turn is that of a request that needs none.
func TestTurnWithoutAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{taken: places}
		g.begin(time.Now(), errLater)
		ask := func(k kind) *call[struct{}] {
			return start(func() (struct{}, error) { return struct{}{}, g.enter(t.Context(), k) })
		}
		require.True(t, ask(opens).returned(), "the first turn comes at once")
		read, other := ask(reads), ask(plain)
		time.Sleep(leastPause)
		require.True(t, other.returned())
		time.Sleep(time.Second)
		require.False(t, read.returned())
		g.leave(reads)
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

// TestTurnsOfTheNextOutage begin at once, and with the shortest pause again.
func TestTurnsOfTheNextOutage(t *testing.T) {
	inOutage(t, &lines{}, func(t *testing.T, s *scene, _ *ballot, entry *request) {
		list := func(ctx context.Context) {
			for range 20 {
				go func() { _, _ = s.Engine.Ballots(ctx, "x") }()
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		list(ctx)
		time.Sleep(time.Second)
		entry.shows(State{Token: 1})
		cancel()
		synctest.Wait()
		require.NoError(t, s.Engine.gate.err())

		entry.tells(News{Over: true})
		s.find("Entry").fail(errLater)
		time.Sleep(50 * time.Millisecond)
		s.find("Entry") // has the first turn
		list(context.Background())
		time.Sleep(leastPause - time.Nanosecond)
		require.Zero(t, s.count("Ballots"))
		time.Sleep(time.Nanosecond)
		require.Equal(t, 1, s.count("Ballots"))
	})
}
