package bench

import (
	"crypto/rand"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/whole"
	"github.com/stretchr/testify/require"
)

// TestRequestsPerChange checks what docs/backends.md says of the requests of a change and of an entry.
func TestRequestsPerChange(t *testing.T) {
	whole.Need(t)
	for _, c := range []struct {
		*service
		change, entry float64
	}{
		{zooKeeper, 3, 4},
		{etcdService, 5, 5},
		{consulService, 4, 4}, // 2 and 1, and 5 blocking queries
	} {
		t.Run(c.name, func(t *testing.T) {
			result := testing.Benchmark(func(b *testing.B) {
				measureHerd(b, newQueue(b, &server{c.service, c.start(b)}, "requests", 10, 5, herdTTL, "v"))
			})
			change, entry := result.Extra["requests/change"], result.Extra["requests/entry"]
			require.Positive(t, change, "the measurement failed")
			require.Positive(t, entry, "the measurement failed")
			// On a busy machine a late request of the change might be counted with the entry, or the other way round.
			require.LessOrEqual(t, change+entry, c.change+c.entry, result.Extra)
		})
	}
}

// TestBytesPerChange checks that neither a change nor an entry transfers the values of the 18 candidates that do nothing
// in it. The value of the candidate that changes is sent and read a few times.
func TestBytesPerChange(t *testing.T) {
	whole.Need(t)
	const value = 64 << 10
	random := make([]byte, value) // Consul's answers are compressed
	_, _ = rand.Read(random)
	for _, c := range services {
		t.Run(c.name, func(t *testing.T) {
			result := testing.Benchmark(func(b *testing.B) {
				measureHerd(b, newQueue(b, &server{c, c.start(b)}, "bytes", 20, 5, herdTTL, string(random)))
			})
			for _, metric := range []string{"bytes/change", "bytes/entry"} {
				t.Logf("%s: %.2f values", metric, result.Extra[metric]/value)
				require.Positive(t, result.Extra[metric], "the measurement failed")
				require.LessOrEqual(t, result.Extra[metric], 6.0*value, metric)
			}
		})
	}
}
