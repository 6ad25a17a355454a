package store

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// history is what the observers of one lease have seen of its spans. Each records that a span is over after a call has
// returned that. Before its next call, it reads whether any observer has recorded that. So a span that is recorded as
// over and then seen to hold has been revived, in whatever order the calls took effect.
type history struct {
	over    [1 << 20]atomic.Bool
	ended   atomic.Int64 // spans seen to end
	held    atomic.Int64 // answers that a span goes on
	revived atomic.Int64
}

func (h *history) end(span Span) {
	if int(span) < len(h.over) && h.over[span].CompareAndSwap(false, true) {
		h.ended.Add(1)
	}
}

func (h *history) known(span Span) bool { return int(span) < len(h.over) && h.over[span].Load() }

// observe asks once whether the span goes on, and returns the span to ask for next: one that Begin has said holds.
func (h *history) observe(l *Lease, span Span, begun bool) (Span, bool) {
	guess, _ := l.Span()
	known := h.known(guess)
	if next, ok := l.Span(); ok {
		if known && next == guess {
			h.revived.Add(1)
		}
		span, begun = next, true
	}
	if !begun {
		return 0, false
	}
	known = h.known(span)
	switch {
	case !l.Holds(span):
		h.end(span)
	case known:
		h.revived.Add(1)
	default:
		h.held.Add(1)
	}
	return span, true
}

// TestLeaseSpanThatEndedForOneEndedForAll: many goroutines ask while others renew, often too late, so that answers and
// deadlines race all the time. The clock is the real one: in virtual time nothing would race.
func TestLeaseSpanThatEndedForOneEndedForAll(t *testing.T) {
	const observers, renewers, enoughEnded, enoughHeld = 16, 3, 3000, 50_000
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, h := NewLease(), new(history)
	enough := func() bool { return h.ended.Load() >= enoughEnded && h.held.Load() >= enoughHeld }

	var all sync.WaitGroup
	for i := range renewers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for !enough() && ctx.Err() == nil {
				sent := Now()
				for range random.IntN(2000) { // the time that the answer takes
					if _, ok := l.Span(); !ok {
						break
					}
				}
				l.Renew(sent, time.Duration(random.IntN(200_000)))
				runtime.Gosched()
			}
		})
	}
	for range observers {
		all.Go(func() {
			var span Span
			var begun bool
			for !enough() && ctx.Err() == nil {
				span, begun = h.observe(l, span, begun)
				runtime.Gosched()
			}
		})
	}
	all.Wait()
	require.NoError(t, ctx.Err(), "watchdog: %d ended, %d held", h.ended.Load(), h.held.Load())
	require.Zero(t, h.revived.Load(), "a span was seen to hold after it had been seen to be over")
}

// TestLeaseEndIsFinalForAll: after End has returned no call says that the lease holds, however many renew it.
func TestLeaseEndIsFinalForAll(t *testing.T) {
	for range 300 {
		l := NewLease()
		var ended atomic.Bool
		var wrong atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 50 {
					over := ended.Load()
					renewed := l.Renew(Now(), time.Hour)
					span, ok := l.Span()
					if over && (renewed || ok || l.Holds(span) || l.Remaining() > 0 || !l.Last().Deadline.IsZero()) {
						wrong.Add(1)
					}
				}
			})
		}
		all.Go(func() {
			l.End()
			ended.Store(true)
		})
		all.Wait()
		require.Zero(t, wrong.Load())
		require.False(t, l.Renew(Now(), time.Hour))
	}
}

// TestLeaseConcurrentRenewalsKeepTheLatest: in whatever order answers arrive, the lease counts from the latest request
// that was confirmed.
func TestLeaseConcurrentRenewalsKeepTheLatest(t *testing.T) {
	for range 300 {
		l := NewLease()
		sent := make([]Instant, 8)
		for i := range sent {
			sent[i] = Now()
		}
		rand.Shuffle(len(sent), func(i, j int) { sent[i], sent[j] = sent[j], sent[i] })
		var all sync.WaitGroup
		for _, s := range sent {
			all.Go(func() {
				if !l.Renew(s, time.Hour) {
					t.Error("it holds for an hour")
				}
			})
		}
		all.Wait()
		latest := sent[0].Time()
		for _, s := range sent {
			if s.Time().After(latest) {
				latest = s.Time()
			}
		}
		require.Equal(t, latest, l.Last().Sent)
	}
}
