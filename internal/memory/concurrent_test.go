package memory_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestEverythingAtOnce is for the race detector: many goroutines call all methods of a few stores while all switches
// change. Afterwards no ballot is left on the service.
func TestEverythingAtOnce(t *testing.T) {
	const stores, goroutines, rounds = 4, 6, 40
	watchdog, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	service := memory.NewService()
	var all sync.WaitGroup
	var opened []*memory.Store
	for i := range stores {
		st, err := memory.Open(service, &memory.Config{TTL: 50 * time.Millisecond})
		require.NoError(t, err)
		opened = append(opened, st)
		for j := range goroutines {
			random := rand.New(rand.NewPCG(uint64(i), uint64(j)))
			all.Go(func() {
				for range rounds {
					use(watchdog, service, st, random)
				}
			})
		}
	}
	all.Wait()
	require.NoError(t, watchdog.Err(), "watchdog")
	for _, st := range opened {
		st.Faults().Heal()
		st.Faults().Delay(0)
		require.NoError(t, st.Close())
	}
	last := open(t, service)
	for i := range 3 {
		list, err := last.Ballots(t.Context(), fmt.Sprint(i))
		require.NoError(t, err)
		require.Empty(t, list)
		leader, err := storetest.Leader(t.Context(), last, fmt.Sprint(i), nil)
		require.NoError(t, err)
		require.Zero(t, leader)
	}
}

// use stands once, with a fault before each step.
func use(ctx context.Context, service *memory.Service, st *memory.Store, random *rand.Rand) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(random.IntN(20))*time.Millisecond)
	defer cancel()
	election := fmt.Sprint(random.IntN(3))
	fault := func() {
		f := st.Faults()
		switch random.IntN(20) {
		case 0:
			f.Cut()
		case 1:
			f.LoseReplies()
		case 2:
			f.Stall()
		case 3:
			f.Expire()
		case 4:
			service.Clear(election)
		case 5:
			f.Delay(time.Duration(random.IntN(1000)) * time.Microsecond)
		default:
			f.Heal()
		}
	}
	fault()
	ballot, err := st.Cast(ctx, election, "v")
	fault()
	_, _ = storetest.Leader(ctx, st, election, nil)
	_, _ = st.Ballots(ctx, election)
	st.Worked()
	if err != nil {
		return
	}
	defer func() { _ = ballot.Withdraw(ctx) }()
	fault()
	if ballot.Wait(ctx) == nil {
		span, ok := ballot.Lease().Span()
		_, _ = ballot.Acknowledge(ctx, "v")
		fault()
		if ok {
			ballot.Lease().Holds(span)
		}
		leader, _ := storetest.Leader(ctx, st, election, &store.Leader{})
		_, _ = storetest.Leader(ctx, st, election, &leader)
	}
	_, _, _ = ballot.Token(), ballot.Err(), ballot.Lease().Remaining()
}

// TestCloseRacesCampaign: in either order, no ballot is left when Close has returned. A campaign that is cut short
// leaves no ballot a moment later either.
func TestCloseRacesCampaign(t *testing.T) {
	service := memory.NewService()
	watcher := open(t, service)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 3000 {
		st, err := memory.Open(service, &memory.Config{TTL: time.Hour})
		require.NoError(t, err)
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				if _, err := st.Cast(context.Background(), "x", "v"); err != nil {
					if !errors.Is(err, store.ErrClosed) {
						t.Error(err)
					}
				}
			})
		}
		for range random.IntN(200) {
			runtime.Gosched() // somewhat later each time
		}
		require.NoError(t, st.Close())
		all.Wait()
		require.Empty(t, standing(t, watcher), "after %d times", i)
	}
}
