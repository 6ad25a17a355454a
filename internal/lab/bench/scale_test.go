//go:build unix

package bench

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
)

// BenchmarkScale measures what each of many elections costs a process that leads or follows all of them on one store.
// What the process needs once, such as the connection and the session, is not counted: one election runs before the
// measurement begins. On memory the costs include those of the service. Followers follow elections without a leader,
// since a leader would cost this process something too.
//
//	goroutines/election  without those of the benchmark that call Run
//	heap-KiB/election    of live objects
//	stack-KiB/election   of all goroutines, those that call Run included
//	idle-%               of one processor, while nothing happens
//	ready-s              until all lead, or all followers know that there is no leader
//	close-s              from the stop of all candidates or followers until the store is closed
func BenchmarkScale(b *testing.B) {
	for _, s := range scaledStores() {
		for _, role := range []string{roleLeading, roleFollowing} {
			for _, n := range s.sizes {
				b.Run(fmt.Sprintf("%s/%s/%d", s.name, role, n), func(b *testing.B) {
					measureScale(b, s.open(b), role, n)
				})
			}
		}
	}
}

// scaledStore is a store on which BenchmarkScale runs.
type scaledStore struct {
	name  string
	sizes []int // numbers of elections
	open  func(b *testing.B) store.Store
}

func scaledStores() []scaledStore {
	list := []scaledStore{{"memory", []int{100, 1000, 10_000}, func(b *testing.B) store.Store {
		st, err := memory.Open(memory.NewService(), &memory.Config{TTL: ttl})
		require.NoError(b, err)
		return st
	}}}
	for _, s := range services {
		sizes := []int{100, 1000, 10_000}
		if s == consulService { // an agent takes no more in a reasonable time
			sizes = sizes[:2]
		}
		list = append(list, scaledStore{s.name, sizes, func(b *testing.B) store.Store {
			st, err := s.open(s.start(b), ttl, nil)
			require.NoError(b, err)
			return st
		}})
	}
	return list
}

func measureScale(b *testing.B, st store.Store, role string, n int) {
	b.Cleanup(func() { _ = st.Close() })
	first := newPopulation(b, st, role, "first", 1)
	before := takeFootprint()
	many := newPopulation(b, st, role, "many", n)
	time.Sleep(ttl / 4) // until what is done once, after a ballot was cast, is over
	used, began := processorTime(), time.Now()
	for b.Loop() {
		time.Sleep(idleFor) // what is measured: nothing happens
	}
	idle := ratio(processorTime()-used, time.Since(began))
	cost := takeFootprint().minus(before)
	began = time.Now()
	many.stop()
	first.stop()
	require.NoError(b, st.Close())
	closing := time.Since(began)

	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(cost.goroutines-many.callers)/float64(n), "goroutines/election")
	b.ReportMetric(float64(cost.heap)/1024/float64(n), "heap-KiB/election")
	b.ReportMetric(float64(cost.stacks)/1024/float64(n), "stack-KiB/election")
	b.ReportMetric(100*idle, "idle-%")
	b.ReportMetric(many.ready.Seconds(), "ready-s")
	b.ReportMetric(closing.Seconds(), "close-s")
}

// footprint is what the process holds at one time; heap and stacks in bytes.
type footprint struct{ goroutines, heap, stacks int }

// collections is after how many the stacks have shrunk to what their goroutines need: each halves a stack at most.
const collections = 6

func takeFootprint() footprint {
	for range collections {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footprint{runtime.NumGoroutine(), int(m.HeapAlloc), int(m.StackInuse)}
}

func (f footprint) minus(before footprint) footprint {
	return footprint{f.goroutines - before.goroutines, f.heap - before.heap, f.stacks - before.stacks}
}

// processorTime returns how much processor time this process has used, its servers not included.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it can't fail with these arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// population is a process's candidates or followers, each in an election of its own.
type population struct {
	callers int           // goroutines of the benchmark's that called Run
	ready   time.Duration // until all led, or knew that there is no leader
	stop    func()        // returns when nothing is left of them
}

func newPopulation(b *testing.B, st store.Store, role, name string, n int) population {
	b.Helper()
	if role == roleFollowing {
		return newFollowers(b, st, name, n)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running, lead, told sync.WaitGroup
	lead.Add(n)
	told.Add(n)
	began := time.Now()
	for i := range n {
		c, err := leadership.NewCandidate(st, fmt.Sprintf("scale/%s/%d", name, i), "leader", nil)
		require.NoError(b, err)
		running.Go(func() {
			_ = c.Run(ctx, func(ctx context.Context, term *leadership.Term) error {
				lead.Done() // panics if it is not the first term
				err := term.Acknowledge(ctx)
				told.Done()
				<-ctx.Done()
				return err
			})
		})
	}
	lead.Wait()
	ready := time.Since(began)
	told.Wait()
	return population{callers: n, ready: ready, stop: func() { cancel(); running.Wait() }}
}

func newFollowers(b *testing.B, st store.Store, name string, n int) population {
	b.Helper()
	var followers []*leadership.Follower
	began := time.Now()
	for i := range n {
		f, err := leadership.NewFollower(st, fmt.Sprintf("scale/%s/%d", name, i), nil)
		require.NoError(b, err)
		f.Start()
		followers = append(followers, f)
	}
	for _, f := range followers {
		for range f.Changes(b.Context()) {
			break // the first state is known
		}
	}
	return population{ready: time.Since(began), stop: func() {
		for _, f := range followers {
			f.Stop()
		}
		for _, f := range followers {
			<-f.Done()
		}
	}}
}
