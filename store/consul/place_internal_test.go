package consul

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A query had gone silent, a look found what it did not tell, and it was broken off. The next query on the same key is
// left alone: it has missed nothing.
func TestNextQueryAfterASilentOne(t *testing.T) {
	d, err := newDriver(Config{Addresses: []string{"127.0.0.1:1"}, TTL: time.Second})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	all := &d.watches
	w := &watch{driver: d, key: "key", ack: true, known: true, overdue: true, index: 1, subs: map[*sub]struct{}{}}
	all.mu.Lock()
	all.byKey[w.key] = w
	w.turn = all.turns.PushBack(w)
	w.place()
	brokenOff := false
	w.cancel = func() { brokenOff = true }
	all.mu.Unlock()
	require.Equal(t, []*watch{w}, all.next(batch))
	require.False(t, brokenOff)
}
