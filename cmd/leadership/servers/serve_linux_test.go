package servers_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/go-leadership/leadership/cmd/leadership/internal/serve"
	"github.com/go-leadership/leadership/conformance"
	"github.com/stretchr/testify/require"
)

// BenchmarkServe measures what leadership serve costs with 1,000 elections of one candidate each in which nothing
// happens: its goroutines and heap, and its requests per minute, without a browser and with one that looks. A write to a
// connection counts as a request.
func BenchmarkServe(b *testing.B) {
	const elections, ttl = 1000, 10 * time.Second
	for _, kind := range []string{"zookeeper", "etcd", "consul"} {
		b.Run(kind, func(b *testing.B) {
			h, err := conformance.URL(address(kind, kinds[kind](b), "/serve", ttl.String()), "")
			require.NoError(b, err)
			candidates, err := h.Open(b.Context(), conformance.NewNetwork().Dial)
			require.NoError(b, err)
			defer candidates.Close()
			for i := range elections {
				ballot, err := candidates.Cast(b.Context(), fmt.Sprintf("serve/%d", i), "leader")
				require.NoError(b, err)
				require.NoError(b, ballot.Wait(b.Context()))
				_, err = ballot.Acknowledge(b.Context(), "leader")
				require.NoError(b, err)
			}
			network := conformance.NewNetwork()
			st, err := h.Open(b.Context(), network.Dial)
			require.NoError(b, err)
			defer st.Close()
			goroutines, heap := measureNow()
			page, err := serve.New(serve.Config{Store: st, Bound: 2 * ttl})
			require.NoError(b, err)
			defer page.Close()
			time.Sleep(4 * ttl) // until the watches are set, and all queues have been read, 50 a second
			perMinute := func() float64 {
				requests, began := network.Requests(), time.Now()
				time.Sleep(2 * ttl)
				return float64(network.Requests()-requests) / time.Since(began).Minutes()
			}
			b.ReportMetric(perMinute(), "req/min")
			n, size := measureNow()
			b.ReportMetric(float64(n-goroutines)/elections, "goroutines/election")
			b.ReportMetric(float64(size-heap)/elections/1024, "KiB/election")
			ctx, end := context.WithCancel(b.Context())
			stream, looked := httptest.NewRecorder(), make(chan struct{})
			go func() {
				defer close(looked)
				page.ServeHTTP(stream, httptest.NewRequest(http.MethodGet, "http://localhost/events", nil).WithContext(ctx))
			}()
			b.ReportMetric(perMinute(), "looked-at-req/min")
			end()
			<-looked
			require.Equal(b, http.StatusOK, stream.Code)
			b.ReportMetric(0, "ns/op")
		})
	}
}

// measureNow returns the number of goroutines, and the bytes of the heap in use.
func measureNow() (goroutines int, heap int64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), int64(m.HeapInuse + m.StackInuse)
}
