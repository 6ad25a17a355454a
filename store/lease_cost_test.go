package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Candidate.IsLeader is little more than Holds, and is called on hot paths.

func TestLeaseHoldsAllocatesNothing(t *testing.T) {
	l := NewLease()
	require.True(t, l.Renew(Now(), time.Hour))
	span, _ := l.Span()
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if !l.Holds(span) {
			t.Error("it holds for an hour")
		}
	}))
	require.Zero(t, testing.AllocsPerRun(1000, func() { l.Span() }))
	require.Zero(t, testing.AllocsPerRun(1000, func() { l.Remaining() }))
	require.Zero(t, testing.AllocsPerRun(1000, func() { l.Holds(span + 1) }), "nor for a span that is over")
}

// TestLeaseHoldsAllocatesNothingAfterTheClockWasSet: the system is asked at each call then.
func TestLeaseHoldsAllocatesNothingAfterTheClockWasSet(t *testing.T) {
	l := NewLease()
	sent := Now()
	sent.t = shifted(t, sent.t, time.Minute, 0)
	require.True(t, l.Renew(sent, time.Hour))
	span, _ := l.Span()
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if !l.Holds(span) {
			t.Error("it holds for an hour")
		}
	}))
}

func BenchmarkLeaseHolds(b *testing.B) {
	l := NewLease()
	l.Renew(Now(), time.Hour)
	span, _ := l.Span()
	b.ReportAllocs()
	for b.Loop() {
		if !l.Holds(span) {
			b.Fatal("it holds for an hour")
		}
	}
}

func BenchmarkLeaseHoldsParallel(b *testing.B) {
	l := NewLease()
	l.Renew(Now(), time.Hour)
	span, _ := l.Span()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if !l.Holds(span) {
				b.Error("it holds for an hour")
			}
		}
	})
}
