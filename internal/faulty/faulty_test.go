package faulty_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/faulty"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What a request that is cut short returns: whether it was carried out, and why the caller has gone.
func TestSend(t *testing.T) {
	for name, c := range map[string]struct {
		fault   func(*faulty.Line)
		takes   time.Duration
		carried bool
		want    error // besides the cause
	}{
		"no fault":    {func(*faulty.Line) {}, 0, true, nil},
		"delays":      {func(l *faulty.Line) { l.Delay(time.Second); l.DelayReplies(time.Second) }, 3 * time.Second, true, nil},
		"news alone":  {func(l *faulty.Line) { l.Stall(); l.Lag(time.Hour) }, 0, true, nil},
		"healed":      {func(l *faulty.Line) { l.Cut(); l.LoseReplies(); l.Heal() }, 0, true, nil},
		"delay stays": {func(l *faulty.Line) { l.Delay(time.Second); l.Cut(); l.Heal() }, 2 * time.Second, true, nil},
		"cut":         {func(l *faulty.Line) { l.Cut() }, time.Minute, false, store.ErrUnavailable},
		"slow":        {func(l *faulty.Line) { l.Delay(time.Hour) }, time.Minute, false, store.ErrUnavailable},
		"lost":        {func(l *faulty.Line) { l.LoseReplies() }, time.Minute, true, store.ErrUnknownOutcome},
		"slow answer": {func(l *faulty.Line) { l.DelayReplies(time.Hour) }, time.Minute, true, store.ErrUnknownOutcome},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := faulty.New()
				c.fault(l)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began, carried := time.Now(), false
				err := l.Send(ctx, func() { carried = true })
				require.Equal(t, c.takes, time.Since(began))
				require.Equal(t, c.carried, carried)
				if c.want == nil {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, c.want)
				require.ErrorIs(t, err, context.DeadlineExceeded)
			})
		})
	}
}

// A switch acts on what is under way, too. The request takes two seconds in each direction without it.
func TestSendUnderWay(t *testing.T) {
	for name, c := range map[string]struct {
		after     time.Duration
		fault     func(*faulty.Line)
		out, back time.Duration // when the request arrives, and its answer; the line is healed after 10 s
		want      error
	}{
		"cut on the way out":   {time.Second, (*faulty.Line).Cut, 10 * time.Second, 12 * time.Second, nil},
		"cut on the way back":  {3 * time.Second, (*faulty.Line).Cut, 2 * time.Second, 10 * time.Second, nil},
		"lost on the way back": {3 * time.Second, (*faulty.Line).LoseReplies, 2 * time.Second, 10 * time.Second, store.ErrUnknownOutcome},
		"delay taken away":     {time.Second, func(l *faulty.Line) { l.Delay(0) }, time.Second, time.Second, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, began := faulty.New(), time.Now()
				l.Delay(2 * time.Second)
				time.AfterFunc(c.after, func() { c.fault(l) })
				time.AfterFunc(10*time.Second, l.Heal)
				err := l.Send(t.Context(), func() { require.Equal(t, c.out, time.Since(began)) })
				require.Equal(t, c.back, time.Since(began))
				require.ErrorIs(t, err, c.want)
			})
		})
	}
}

// An answer that was lost does not come when the line is healed: its caller learns so.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := faulty.New()
		l.LoseReplies()
		time.AfterFunc(time.Second, l.Heal)
		require.ErrorIs(t, l.Send(t.Context(), func() {}), store.ErrUnknownOutcome)
	})
}

func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := faulty.New()
		l.DelayReplies(time.Second)
		l.Lag(time.Second)
		l.Stall()
		time.AfterFunc(time.Second, l.Heal)
		sent := time.Now()
		require.False(t, l.Arrived(sent))
		require.NoError(t, l.Await(t.Context(), sent))
		require.Equal(t, 2*time.Second, time.Since(sent))
		require.True(t, l.Arrived(sent))
	})
}
