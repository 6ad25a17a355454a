package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// floor is two sessions of the plain client: one changes keys, the other watches them.
type floor struct {
	wires          wires
	writer, reader plain
}

func newFloor(b *testing.B, s *server) *floor {
	f := &floor{wires: s.newWires(2)}
	f.writer, f.reader = s.connect(b, s.address, f.wires[0].dial), s.connect(b, s.address, f.wires[1].dial)
	return f
}

const floorKey, floorValue = "floor", "a"

// deletion measures from the deletion of a key until the other session is notified.
func (f *floor) deletion(b *testing.B) time.Duration {
	require.NoError(b, f.writer.create(b.Context(), floorKey, floorValue))
	known, err := f.reader.watch(b.Context(), floorKey)
	require.NoError(b, err)
	f.wires.awaitQuiet(b)

	start := time.Now()
	require.NoError(b, f.writer.delete(b.Context(), floorKey))
	gone := receive(b, known, "the watch to fire")

	require.NoError(b, gone.err)
	require.Empty(b, gone.value)
	return gone.at.Sub(start)
}

// news measures from the creation of a key until the other session has its value.
func (f *floor) news(b *testing.B) time.Duration {
	known, err := f.reader.watch(b.Context(), floorKey)
	require.NoError(b, err)
	f.wires.awaitQuiet(b)

	start := time.Now()
	require.NoError(b, f.writer.create(b.Context(), floorKey, floorValue))
	news := receive(b, known, "the reader to know")

	require.NoError(b, news.err)
	require.Equal(b, floorValue, news.value)
	require.NoError(b, f.writer.delete(b.Context(), floorKey))
	return news.at.Sub(start)
}

// entry measures the least that entering a queue takes.
func (f *floor) entry(b *testing.B) time.Duration {
	f.wires.awaitQuiet(b)
	start := time.Now()
	key, err := f.writer.enter(b.Context())
	took := time.Since(start)

	require.NoError(b, err)
	require.NoError(b, f.writer.delete(b.Context(), key))
	return took
}
