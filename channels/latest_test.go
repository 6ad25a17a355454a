package channels

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A last value is the last, whatever comes at the same moment.
func TestLastValue(t *testing.T) {
	for range 1000 {
		l := newLatest[int](1)
		var others sync.WaitGroup
		others.Go(func() { l.replace(1) })
		l.close(2)
		others.Wait()
		require.Equal(t, 2, <-l.values)
		_, open := <-l.values
		require.False(t, open)
	}
}
