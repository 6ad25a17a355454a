package kvwatch

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/stretchr/testify/require"
)

// A query was silent, a resync found what it did not report, and it was cancelled. The next query on the same key is
// kept: it has missed nothing.
func TestNextQueryAfterASilentOne(t *testing.T) {
	all, w := newWatcher(t, Options{}, func(News) {})
	all.mu.Lock()
	w.known, w.late = true, true
	w.start()
	query, brokenOff := w.cancel, false
	w.cancel = func() { brokenOff = true; query() }
	all.mu.Unlock()
	require.Equal(t, []*watch{w}, all.due())
	require.False(t, brokenOff)
}

// There are never more queries than allowed. Those that were given up count until the agent releases them. A watch
// without a query gets one when there is room.
func TestQueriesAreLimited(t *testing.T) {
	all, w := newWatcher(t, Options{}, func(News) {})
	all.mu.Lock()
	w.known, all.queries = true, agent.Queries
	all.running = true // in this test runShared is not: it would count a query of its own as given up
	w.start()
	all.mu.Unlock()
	require.Len(t, all.wake, 1, "it is watched with others")
	hasQuery := func(queries int, held ...time.Time) bool {
		all.mu.Lock()
		all.queries, all.held = queries, held
		all.mu.Unlock()
		all.promote()
		all.mu.Lock()
		defer all.mu.Unlock()
		return w.cancel != nil
	}
	over, later := time.Now().Add(-time.Second), time.Now().Add(time.Hour)
	require.False(t, hasQuery(agent.Queries))
	require.False(t, hasQuery(1, slices.Repeat([]time.Time{later}, agent.Queries-1)...))
	require.True(t, hasQuery(1, slices.Repeat([]time.Time{over, later}, agent.Queries/2)...))
	all.mu.Lock()
	queries, held := all.queries, len(all.held)
	all.held = nil
	w.cancel()
	all.mu.Unlock()
	require.Equal(t, 2, queries)
	require.Equal(t, agent.Queries/2, held)
	require.Eventually(t, func() bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		return w.cancel == nil && all.queries == 1 && len(all.held) == 1 && all.held[0].After(time.Now())
	}, 10*time.Second, time.Millisecond, "it counts that the query was given up")
}

// A user who comes just after the last one has left has the same query. Without that each change of users would give a
// query up, which goes on counting at the agent.
func TestQueryOutlivesItsUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, w := newWatcher(t, Options{}, func(News) {})
		all.mu.Lock()
		w.known, w.state.Exists = true, true
		w.start()
		all.mu.Unlock()
		change := func() {
			all.mu.Lock()
			users := slices.Collect(maps.Keys(w.users))
			all.mu.Unlock()
			require.Len(t, users, 1)
			w.leave(users[0])
		}
		for range 3 {
			change()
			time.Sleep(linger / 2)
			next, _ := all.join(w.key, false, &user{tell: func(News) {}})
			require.Same(t, w, next)
			time.Sleep(2 * linger)
			all.mu.Lock()
			goesOn, givenUp := w.cancel != nil, len(all.held)
			all.mu.Unlock()
			require.True(t, goesOn)
			require.Zero(t, givenUp)
		}
		change()
		time.Sleep(2 * linger)
		all.mu.Lock()
		defer all.mu.Unlock()
		require.Empty(t, all.byKey)
		require.Len(t, all.held, 1)
	})
}
