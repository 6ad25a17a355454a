package teller_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/teller"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// starting returns the start function of a queue, and its owner.
func starting() (func(func()) bool, *sync.WaitGroup) {
	var owner sync.WaitGroup
	return func(run func()) bool { owner.Go(run); return true }, &owner
}

// Calls are made one at a time, in the order in which they were added, those that other calls add included. The goroutine
// ends when there are none.
func TestOrder(t *testing.T) {
	start, owner := starting()
	q := teller.NewQueue(1000, start)
	var called []int
	for i := range 200 {
		q.Add("call", func() {
			called = append(called, i) // without a lock: the race detector sees two at a time
			if i == 0 {
				q.Add("call", func() { called = append(called, -1) })
			}
		})
	}
	owner.Wait()
	require.Len(t, called, 201)
	called = slices.DeleteFunc(called, func(i int) bool { return i < 0 })
	require.True(t, slices.IsSorted(called))
	require.EqualValues(t, 201, q.Added())
	<-q.Idle()
}

// While a call hangs, Add returns, and no more calls wait than there is room for: the latest, in order, and the latest
// of each kind.
func TestCallThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, owner := starting()
		q := teller.NewQueue(4, start)
		resumed := make(chan struct{})
		var called []any
		q.Add("first", func() { <-resumed })
		synctest.Wait()
		for i := range 100 {
			q.Add("number", func() { called = append(called, i) })
			if i == 0 {
				q.Add("once", func() { called = append(called, "once") })
			}
		}
		q.Add("last", func() { called = append(called, "last") })
		synctest.Wait()
		select {
		case <-q.Idle():
			t.Error("a call has not returned")
		default:
		}
		close(resumed)
		<-q.Idle()
		require.Equal(t, []any{"once", 97, 98, 99, "last"}, called)
		owner.Wait()
	})
}

// What is added once the owner has ended is dropped.
func TestOwnerHasEnded(t *testing.T) {
	q := teller.NewQueue(10, func(func()) bool { return false })
	for range 2 {
		q.Add("call", func() { t.Error("it was called") })
		<-q.Idle()
	}
}

func TestCall(t *testing.T) {
	wanted := errors.New("it failed")
	require.ErrorIs(t, teller.Call(func() error { return wanted }), wanted)
	require.NoError(t, teller.Call(func() error { return nil }))
	require.ErrorContains(t, teller.Call(func() error { panic("the disk is full") }), "the disk is full\ngoroutine ")
	require.ErrorContains(t, teller.Call(func() error { runtime.Goexit(); return nil }), "runtime.Goexit")
}

// handler calls a function with each record.
type handler struct {
	slog.Handler
	handle func() error
}

func (h handler) Enabled(context.Context, slog.Level) bool  { return true }
func (h handler) Handle(context.Context, slog.Record) error { return h.handle() }

// A handler that does not return ends no goroutine but its own, and the line is found in the default log.
func TestLog(t *testing.T) {
	var out bytes.Buffer
	old := slog.Default()
	defer slog.SetDefault(old)
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	record := slog.NewRecord(time.Now(), slog.LevelInfo, "elected", 0)
	logged := 0
	require.NoError(t, teller.Log(handler{slog.DiscardHandler, func() error { logged++; return errors.New("the disk is full") }}, record))
	require.Equal(t, 1, logged)
	require.NoError(t, teller.Log(slog.DiscardHandler, record))
	require.Empty(t, out.String())

	panics := handler{slog.DiscardHandler, func() error { panic("the disk is full") }}
	require.ErrorContains(t, teller.Log(panics, record), "a line of the log is lost: panic in a callback: the disk is full")
	require.Contains(t, out.String(), `level=ERROR msg="leadership: elected" error="a line of the log is lost: `)

	slog.SetDefault(slog.New(panics))
	require.Error(t, teller.Log(panics, record))
	slog.SetDefault(slog.New(handler{slog.DiscardHandler, func() error { runtime.Goexit(); return nil }}))
	require.Error(t, teller.Log(slog.Default().Handler(), record))
}
