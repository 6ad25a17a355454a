package store

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLeaseIsNotRenewedByNothing: a renewal that is valid for no time changes nothing, even if the wall clock is so far
// ahead that the time since the zero Instant overflows.
func TestLeaseIsNotRenewedByNothing(t *testing.T) {
	for _, years := range []time.Duration{0, 30, 60, 200} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(years * 365 * 24 * time.Hour)
			l := NewLease()
			require.False(t, l.Renew(Instant{}, 0), "after %d years", years)
			require.Zero(t, l.Remaining(), "after %d years", years)
			require.True(t, l.Renew(Now(), time.Second))
			require.True(t, l.Renew(Instant{}, 0))
			require.Equal(t, time.Second, l.Remaining(), "after %d years", years)
		})
	}
}

// TestLeaseRenewedAtItsDeadline aims at the one moment where an answer could go wrong: a renewal confirmed in time
// takes effect while others have just read the clock and found that the deadline has passed. Whichever comes first, no
// call may return that the lease has ended and a later one that the same span goes on.
func TestLeaseRenewedAtItsDeadline(t *testing.T) {
	const least = 400
	for name, over := range map[string]func(l *Lease, span Span) bool{
		"Holds":     func(l *Lease, span Span) bool { return !l.Holds(span) },
		"Span":      func(l *Lease, span Span) bool { now, ok := l.Span(); return !ok || now != span },
		"Remaining": func(l *Lease, _ Span) bool { return l.Remaining() == 0 },
		"Last":      func(l *Lease, _ Span) bool { return l.Last().Deadline.IsZero() },
	} {
		t.Run(name, func(t *testing.T) {
			var inTime, late int
			for watchdog := time.Now().Add(2 * time.Minute); inTime+late < least || inTime < 30 || late < 30; {
				require.True(t, time.Now().Before(watchdog), "watchdog: %d in time, %d late", inTime, late)
				l := NewLease()
				l.Renew(Now(), 50*time.Microsecond)
				span, ok := l.Span()
				if !ok {
					continue // the machine was busy
				}
				require.Zero(t, raceAtDeadline(l, span, over), "a span was seen to hold after it had been seen to be over")
				if l.Holds(span) {
					inTime++
				} else {
					late++
				}
			}
		})
	}
}

// raceAtDeadline renews the lease at its deadline, plus or minus a microsecond, for an hour. Meanwhile three goroutines
// watch the span and write down when it is over. It returns how often one saw it go on after that.
func raceAtDeadline(l *Lease, span Span, over func(*Lease, Span) bool) int64 {
	var ended, done atomic.Bool
	var revived atomic.Int64
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for last := false; !last; {
				last = done.Load()
				known := ended.Load()
				if l.Holds(span) && known {
					revived.Add(1)
				}
				if over(l, span) {
					ended.Store(true)
				}
			}
		})
	}
	sent, early := Now(), time.Duration(rand.IntN(2000)) // nanoseconds
	for l.Remaining() > early {
	}
	l.Renew(sent, time.Hour)
	done.Store(true)
	all.Wait()
	return revived.Load()
}

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
	const observers, renewers, enoughEnded, enoughHeld = 16, 3, 600, 10_000
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
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
	for range 100 {
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
