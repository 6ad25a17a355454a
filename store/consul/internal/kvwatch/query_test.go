package kvwatch

import (
	"testing"

	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/stretchr/testify/require"
)

// There are never more queries than allowed. A watch without a query gets one when there is room.
func TestQueriesAreLimited(t *testing.T) {
	all, w := newWatcher(t, Options{}, func(News) {})
	hasQuery := func(queries int) bool {
		all.mu.Lock()
		all.queries = queries
		all.mu.Unlock()
		all.promote()
		all.mu.Lock()
		defer all.mu.Unlock()
		return w.queried
	}
	all.mu.Lock()
	w.known, all.running = true, true // in this test runShared is not
	all.mu.Unlock()
	require.False(t, hasQuery(agent.Queries))
	require.True(t, hasQuery(agent.Queries-1))
	require.Equal(t, agent.Queries, all.queries)
}

// A query goes on without users, since the agent would not notice that it was given up: the next user has the same one. It
// ends with its wait.
func TestQueryOutlivesItsUser(t *testing.T) {
	all, w := newWatcher(t, Options{}, func(News) {})
	all.mu.Lock()
	w.known, w.state.Exists = true, true
	w.start()
	all.mu.Unlock()
	for u := range w.users {
		w.leave(u)
	}
	next := &user{tell: func(News) {}}
	again, _ := all.join(w.key, false, next)
	require.Same(t, w, again)
	require.True(t, w.queried)
	w.leave(next)
	w.client.Life.Stop() // the answer comes
	w.client.Life.Wait()
	require.Empty(t, all.byKey)
	require.Zero(t, all.queries)
}
