package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A change of leader, and standing again, cost no more than docs/backends.md says.
func TestRequestsPerChange(t *testing.T) {
	for _, c := range []struct {
		*service
		change, entry float64
	}{
		{zooKeeper, 3, 5}, // 4, and 5 if the list of ballots overtakes the creation: then it is read again
		{etcdService, 5, 4},
		{consulService, 3, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			result := testing.Benchmark(func(b *testing.B) {
				measureHerd(b, newQueue(b, &server{c.service, c.start(b)}, "requests", 10, 5, herdTTL))
			})
			for metric, most := range map[string]float64{"requests/change": c.change, "requests/entry": c.entry} {
				require.Positive(t, result.Extra[metric], "the measurement failed")
				require.LessOrEqual(t, result.Extra[metric], most, "%s of %v", metric, result.Extra)
			}
		})
	}
}
