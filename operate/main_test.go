package operate_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ttl      = 12 * time.Second
	election = "database/primary"
)

// world is some candidates in virtual time, each on a store of its own, and the operator's store.
type world struct {
	*testing.T
	service  *memory.Service
	operator *memory.Store
	stores   map[string]*memory.Store
	all      map[string]*leadership.Candidate

	mu    sync.Mutex
	terms []string // who has led, in order; guarded by mu
	leads int      // how many lead now
}

func virtual(t *testing.T, candidates int, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, service: memory.NewService(), stores: map[string]*memory.Store{}, all: map[string]*leadership.Candidate{}}
		w.operator = w.open()
		defer func() {
			for _, c := range w.all {
				c.Stop()
				<-c.Done()
			}
		}()
		for i := range candidates {
			w.add(fmt.Sprintf("c%d", i))
		}
		test(w)
	})
}

func (w *world) open() *memory.Store {
	st, err := memory.Open(w.service, &memory.Config{TTL: ttl})
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, st.Close()) })
	return st
}

// add makes a candidate stand that acknowledges at once, and gives way to others.
func (w *world) add(value string, giveWayTo ...string) {
	w.Helper()
	w.stores[value] = w.open()
	c, err := leadership.NewCandidate(w.stores[value], election, value, &leadership.CandidateOptions{GiveWayTo: giveWayTo})
	require.NoError(w, err)
	w.all[value] = c
	go func() {
		_ = c.Run(context.Background(), func(ctx context.Context, term *leadership.Term) error {
			w.count(value, 1)
			defer w.count(value, -1)
			return leadership.Lead(ctx, term)
		})
	}()
	synctest.Wait()
}

func (w *world) count(value string, change int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leads += change
	if w.leads > 1 {
		w.Error("two lead")
	}
	if change > 0 {
		w.terms = append(w.terms, value)
	}
}

// ledBy returns who has led since the last call.
func (w *world) ledBy() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.terms = nil }()
	return w.terms
}

func (w *world) queue() []store.Standing {
	w.Helper()
	list, err := w.operator.Ballots(context.Background(), election)
	require.NoError(w, err)
	return list
}

// settle waits until all candidates stand.
func (w *world) settle() []store.Standing {
	w.Helper()
	for end := time.Now().Add(10 * ttl); ; time.Sleep(ttl / 1000) {
		synctest.Wait()
		if list := w.queue(); len(list) == len(w.all) {
			return list
		}
		require.True(w, time.Now().Before(end), "not all stand: %v", w.queue())
	}
}
