package kvwatch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A query had gone silent, a turn found what it did not tell, and it was broken off. The next query on the same key is
// left alone: it has missed nothing.
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
