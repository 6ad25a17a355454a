package zookeeper

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCandidatesAreBounded(t *testing.T) {
	var c candidates
	require.False(t, c.known(0))
	for session := range int64(mostCandidates) {
		c.add(session)
		c.add(session) // again
	}
	require.True(t, c.known(0))
	c.add(mostCandidates)
	require.True(t, c.known(mostCandidates))
	require.Len(t, c.sessions, 1)
}
