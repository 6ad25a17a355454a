package polls

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSettledOnlyWhileEveryPollWaitsForWhatHasNotHappened(t *testing.T) {
	var s Set
	require.True(t, s.Settled(), "there is none")
	first, second := s.Begin(), s.Begin()
	require.False(t, s.Settled(), "both are looking")
	one, two := make(chan struct{}), make(chan struct{})
	first.Wait(one)
	require.False(t, s.Settled(), "the second is looking")
	second.Wait(two)
	require.True(t, s.Settled())
	close(one)
	require.False(t, s.Settled(), "the first has not looked at what happened")
	first.Wait()
	require.False(t, s.Settled(), "it is looking")
	first.Wait(make(chan struct{}), two)
	require.True(t, s.Settled(), "neither has happened")
	first.Wait(make(chan struct{}), one)
	require.False(t, s.Settled(), "one of two has happened")
	first.End()
	require.True(t, s.Settled())
	second.End()
	require.True(t, s.Settled())
}
