package testserver

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Another member becomes the primary. No transaction is lost, though one of the standbys has
// less of the log than the other. An old primary comes back at its own address with all transactions, also those of the others.
func TestPostgresCluster(t *testing.T) {
	t.Parallel()
	c := NewPostgresCluster(t, PostgresConfig{})
	primaryOf := func() int {
		t.Helper()
		require.NoError(t, c.Ready(bounded(t)))
		primary, err := c.Leader()
		require.NoError(t, err)
		return primary
	}
	require.Zero(t, primaryOf())
	c.Node(0).Query(t, "CREATE TABLE word (text text)")
	var words []string
	write := func(format string, args ...any) {
		words = append(words, fmt.Sprintf(format, args...))
		c.Node(primaryOf()).Query(t, "INSERT INTO word VALUES ('"+words[len(words)-1]+"')")
	}
	const behind = 1
	old := primaryOf()
	next := 2 - old
	write("both standbys have it, of %d", old)
	require.NoError(t, c.Node(behind).Disconnect(bounded(t)))
	c.Node(old).Query(t, "INSERT INTO word VALUES ('ahead')")
	words = append(words, "ahead")
	require.NoError(t, c.Member(old).Kill())
	require.Equal(t, next, primaryOf(), "%d has less of the log", behind)
	write("%d is the primary", next)
	require.NoError(t, c.Member(behind).Kill())
	require.NoError(t, c.Member(old).Start(bounded(t)))
	write("%d is a standby", old)
	require.NoError(t, c.Member(behind).Start(bounded(t)))
	write("all are there")
	require.Equal(t, next, primaryOf())
	for i := range 3 {
		if i != next {
			require.NoError(t, c.Node(i).CatchUp(bounded(t)))
		}
		require.Equal(t, strings.Join(words, "\n"), c.Node(i).Query(t, "SELECT text FROM word"), "member %d", i)
	}
}
