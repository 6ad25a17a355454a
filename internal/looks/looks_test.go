package looks

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func woken(chs ...chan struct{}) (which []int) {
	for i, ch := range chs {
		select {
		case <-ch:
			which = append(which, i)
		default:
		}
	}
	return which
}

func TestNextWakesOneAfterTheOther(t *testing.T) {
	var turns Turns
	turns.Next() // nothing waits
	a, b, c := turns.Join(), turns.Join(), turns.Join()
	for _, want := range []int{0, 1, 2, 0} {
		turns.Next()
		require.Equal(t, []int{want}, woken(a, b, c))
	}
	turns.Leave(b)
	for _, want := range []int{2, 0, 2} {
		turns.Next()
		require.Equal(t, []int{want}, woken(a, b, c))
	}
	for range 5 {
		turns.Next() // kept, once, for each
	}
	require.Equal(t, []int{0, 2}, woken(a, b, c))
	turns.Leave(a)
	turns.Leave(c)
	turns.Leave(c)
	turns.Next()
	require.Empty(t, woken(a, b, c))
}
