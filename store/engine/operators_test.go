package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// lister is a driver that lists elections.
type lister struct {
	Driver
	answers []any // names, or an error
}

func (l *lister) Elections(context.Context) ([]string, error) {
	answer := l.answers[0]
	l.answers = l.answers[1:]
	err, _ := answer.(error)
	names, _ := answer.([]string)
	return names, err
}

func (*lister) Confirm(context.Context) error { return nil }
func (*lister) Close() error                  { return nil }

// TestElections are sorted, each once, and names. A request without an answer is sent again. A denial is final.
func TestElections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &lister{answers: []any{errUnsent, []string{"b", "a/b", "_void", "b", "a__b", ""}, store.ErrDenied}}
		e := New(d, Settings{Name: "script", TTL: time.Second, Pace: time.Second / 4, VirtualTime: true})
		defer e.Close()
		require.False(t, e.Worked())
		names, err := e.Elections(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"a/b", "b"}, names)
		require.True(t, e.Worked())
		_, err = e.Elections(t.Context())
		require.ErrorIs(t, err, store.ErrDenied)
	})
}

// TestCallsOfOperators are sent until they are answered. An error says that an earlier attempt might have been carried out.
func TestCallsOfOperators(t *testing.T) {
	for op, c := range map[string]struct {
		begins string // the error
		sent   string
		do     func(ctx context.Context, e *Engine, election string) error
	}{
		"Ballots": {"list the ballots", "x ", func(ctx context.Context, e *Engine, election string) error {
			list, err := e.Ballots(ctx, election)
			if err == nil && (len(list) != 1 || list[0].Token != 3) {
				return errDisk
			}
			return err
		}},
		"RequestResignation": {"request the resignation", "x 7", func(ctx context.Context, e *Engine, election string) error {
			return e.RequestResignation(ctx, election, 7)
		}},
		"Clear": {"clear", "x ", func(ctx context.Context, e *Engine, election string) error { return e.Clear(ctx, election) }},
	} {
		t.Run(op, func(t *testing.T) {
			play(t, Settings{}, func(t *testing.T, s *scene) {
				require.ErrorIs(t, c.do(t.Context(), s.Engine, "/"), store.ErrInvalid)
				begin := func(ctx context.Context) *call[struct{}] {
					return start(func() (struct{}, error) { return struct{}{}, c.do(ctx, s.Engine, "x") })
				}
				done := begin(t.Context())
				s.next(op).fail(errLater)
				time.Sleep(50 * time.Millisecond)
				r := s.next(op)
				require.Equal(t, c.sent, r.election+" "+r.key)
				r.answer(answer{list: []store.Standing{{Value: "v", Token: 3}}})
				done.succeeds(t)

				done = begin(t.Context())
				s.next(op).fail(store.ErrDenied)
				require.True(t, done.returned())
				require.EqualError(t, done.err, c.begins+` in election "x" on test://: permission denied`)

				done = begin(t.Context())
				s.next(op).fail(errLater)
				time.Sleep(50 * time.Millisecond)
				s.next(op).fail(store.ErrDenied)
				done.fails(t, store.ErrDenied)
				require.ErrorIs(t, done.err, store.ErrUnknownOutcome)

				ctx, cancel := context.WithCancelCause(t.Context())
				done = begin(ctx)
				s.next(op).fail(errUnsent)
				cancel(errDisk)
				done.fails(t, errDisk)
				require.ErrorIs(t, done.err, store.ErrUnavailable)
				require.NotErrorIs(t, done.err, store.ErrUnknownOutcome)
			})
		})
	}
	play(t, Settings{}, func(t *testing.T, s *scene) {
		require.ErrorIs(t, s.Engine.RequestResignation(t.Context(), "", 7), store.ErrInvalid)
		c := start(func() (struct{}, error) { return struct{}{}, s.Engine.Clear(t.Context(), "") })
		s.next("Clear").answer(answer{})
		c.succeeds(t) // all elections
	})
}
