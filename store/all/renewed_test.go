package all_test

import (
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// Options.Renewed is called once for each renewal of the session, however many ballots it has: with the times that the lease
// shows.
func TestRenewedIsToldOnceForAllElections(t *testing.T) {
	for _, kind := range []string{"zookeeper", "etcd", "consul", "file", "memory"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			raw := "memory://renewed?ttl=3s"
			switch kind {
			case "file":
				raw = "file://" + t.TempDir() + "/store?ttl=3s"
			case "zookeeper", "etcd", "consul":
				raw = on(t, kind, "ttl=3s")
			}
			var mu sync.Mutex
			var latencies []time.Duration
			st, err := store.Open(soon(t), raw, &store.Options{Renewed: func(latency time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				latencies = append(latencies, latency)
			}})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, st.Close()) })
			told := func() int {
				mu.Lock()
				defer mu.Unlock()
				return len(latencies)
			}
			var lease *store.Lease
			for range 20 {
				lease = cast(t, st, newElection(), "own").Lease()
			}
			before, renewals := told(), 0
			for last := lease.Last(); renewals < 3; renewals++ {
				<-last.Changed
				last = lease.Last()
			}
			eventually(t, func() bool { return told() >= before+renewals }, "renewals are told")
			require.LessOrEqual(t, told(), before+2*renewals, "and not for each of 20 elections")
			mu.Lock()
			defer mu.Unlock()
			for _, latency := range latencies {
				require.Positive(t, latency)
				require.Less(t, latency, 3*time.Second)
			}
		})
	}
}
