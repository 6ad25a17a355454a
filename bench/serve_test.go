package bench

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/serve"
	"github.com/stretchr/testify/require"
)

// BenchmarkServe measures what leadership serve costs with 1,000 elections of one candidate each in which nothing
// happens: its goroutines and heap, and its requests per minute, without a browser and with one that looks.
func BenchmarkServe(b *testing.B) {
	const elections = 1000
	onEachService(b, func(b *testing.B, s *server) {
		candidates := s.openStore(b, ttl, s.newWire())
		for i := range elections {
			c := newContender(b, candidates, fmt.Sprintf("serve/%d", i), "leader")
			c.stand(b)
			c.takeOver(b)
		}
		w := s.newWire()
		st := s.openStore(b, ttl, w)
		goroutines, heap := measureNow()
		page, err := serve.New(serve.Config{Store: st, Bound: 2 * ttl})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, page.Close()) })
		time.Sleep(2 * ttl) // until all have been read once, and the watches are set
		perMinute := func() float64 {
			requests, began := w.requests(), time.Now()
			time.Sleep(2 * ttl)
			return float64(w.requests()-requests) / time.Since(began).Minutes()
		}
		for b.Loop() {
			b.ReportMetric(perMinute(), "req/min")
			n, size := measureNow()
			b.ReportMetric(float64(n-goroutines)/elections, "goroutines/election")
			b.ReportMetric(float64(size-heap)/elections/1024, "KiB/election")
			ctx, end := context.WithCancel(b.Context())
			looked := make(chan struct{})
			go func() {
				defer close(looked)
				page.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/events", nil).WithContext(ctx))
			}()
			b.ReportMetric(perMinute(), "looked-at-req/min")
			end()
			<-looked
		}
		b.ReportMetric(0, "ns/op")
	})
}

// measureNow returns the number of goroutines, and the bytes of the heap in use.
func measureNow() (goroutines int, heap int64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), int64(m.HeapInuse + m.StackInuse)
}
