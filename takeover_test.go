package leadership_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/stretchr/testify/require"
)

// The takeover-failed callbacks are called if the candidate did not acknowledge, for whatever reason, and only then.
func TestTakeoverFailedCallbacks(t *testing.T) {
	type lead = func(ctx context.Context, term *leadership.Term) error
	for name, test := range map[string]struct {
		lead   lead
		reason error // nil if it is not called
	}{
		"lead fails before it acknowledges": {func(context.Context, *leadership.Term) error { return errTakeover }, errTakeover},
		"an error of another election": {func(context.Context, *leadership.Term) error {
			return errors.Join(errTakeover, leadership.ErrStopped)
		}, errTakeover},
		"lead fails after it acknowledged": {func(ctx context.Context, term *leadership.Term) error {
			return errors.Join(term.Acknowledge(ctx), errTakeover)
		}, nil},
	} {
		virtualRun(t, name, func(w *world) {
			c := w.candidate(w.open(), "a", nil)
			var failed []error
			c.OnTakeoverFailed(func(err error) { failed = append(failed, err) })
			turns := 0
			result := async(func() error {
				return c.Run(background, func(ctx context.Context, term *leadership.Term) error {
					if turns++; turns > 1 {
						return serve(ctx, term)
					}
					return test.lead(ctx, term)
				})
			})
			w.at(time.Minute)
			halt(c)
			require.NoError(w, <-result)
			if test.reason == nil {
				require.Empty(w, failed)
				return
			}
			require.Len(w, failed, 1)
			require.ErrorIs(w, failed[0], test.reason)
		})
	}
}

// If the term ends while the candidate takes over, lead is not called. The takeover-failed callbacks run while the
// ballot still stands, and their error says why the term ended.
func TestTakeoverFailsWhereTheCandidateEndsItsTerm(t *testing.T) {
	for how, test := range map[string]struct {
		end    func(w *world, c *leadership.Candidate, term *leadership.Term, cancel context.CancelFunc)
		reason error
		text   string
	}{
		"candidate resigns": {func(w *world, c *leadership.Candidate, term *leadership.Term, _ context.CancelFunc) {
			c.Resign()
		}, leadership.ErrResigned, "resigned"},
		"term resigns": {func(w *world, c *leadership.Candidate, term *leadership.Term, _ context.CancelFunc) {
			term.Resign()
		}, leadership.ErrResigned, "resigned"},
		"resigned by another goroutine": {func(_ *world, c *leadership.Candidate, _ *leadership.Term, _ context.CancelFunc) {
			go func() { c.Resign() }()
		}, leadership.ErrResigned, "resigned"},
		"stopped": {func(_ *world, c *leadership.Candidate, _ *leadership.Term, _ context.CancelFunc) {
			c.Stop()
		}, leadership.ErrStopped, "stopped"},
		"stopped by another goroutine": {func(_ *world, c *leadership.Candidate, _ *leadership.Term, _ context.CancelFunc) {
			go c.Stop()
		}, leadership.ErrStopped, "stopped"},
		"Run's context ends": {func(_ *world, _ *leadership.Candidate, _ *leadership.Term, cancel context.CancelFunc) {
			cancel()
		}, context.Canceled, "stopped: context canceled"},
	} {
		for returned, result := range map[string]func(ctx context.Context) error{
			"nothing":                func(context.Context) error { return nil },
			"its context's error":    func(ctx context.Context) error { return ctx.Err() },
			"its context's cause":    context.Cause,
			"an error of its own":    func(context.Context) error { return errTakeover },
			"the same error wrapped": func(ctx context.Context) error { return errors.Join(errors.New("so"), context.Cause(ctx)) },
		} {
			virtualRun(t, how+", returns "+returned, func(w *world) {
				c := w.candidate(w.open(), "a", nil)
				ctx, cancel := context.WithCancel(background)
				defer cancel()
				var failed []error
				won := 0
				c.OnWon(func(ctx context.Context, term *leadership.Term) error {
					if won++; won > 1 {
						return nil
					}
					test.end(w, c, term, cancel)
					<-ctx.Done()
					return result(ctx)
				})
				c.OnWon(func(ctx context.Context, _ *leadership.Term) error {
					require.NoError(w, ctx.Err(), "called after the term has ended")
					return nil
				})
				c.OnTakeoverFailed(func(err error) {
					require.False(w, c.IsLeader())
					require.Equal(w, []string{"a"}, w.ballots(), "the ballot is kept while it is undone")
					failed = append(failed, err)
				})
				ended := async(func() error {
					return c.Run(ctx, func(ctx context.Context, term *leadership.Term) error {
						require.NoError(w, ctx.Err(), "called with a context that has ended")
						return serve(ctx, term)
					})
				})
				w.at(time.Minute)
				cancel()
				<-ended
				require.Len(w, failed, 1)
				require.ErrorIs(w, failed[0], test.reason)
				if returned == "an error of its own" {
					require.ErrorIs(w, failed[0], errTakeover)
				} else {
					require.EqualError(w, failed[0], test.text)
				}
			})
		}
	}
}

// A term that ends unacknowledged while lead runs is a failed takeover, whatever lead returns.
func TestTakeoverFailsWhereLeadDoesNotAcknowledge(t *testing.T) {
	type lead = func(ctx context.Context, term *leadership.Term) error
	for name, test := range map[string]struct {
		lead   lead
		reason error
	}{
		"lead returns": {func(context.Context, *leadership.Term) error { return nil }, leadership.ErrResigned},
		"lead resigns": {func(ctx context.Context, term *leadership.Term) error { term.Resign(); return nil }, leadership.ErrResigned},
		"lead is stopped": {func(ctx context.Context, term *leadership.Term) error {
			<-ctx.Done()
			return ctx.Err()
		}, leadership.ErrStopped},
	} {
		virtualRun(t, name, func(w *world) {
			c := w.candidate(w.open(), "a", nil)
			failed := make(chan error, 1000)
			c.OnTakeoverFailed(func(err error) { failed <- err })
			ended := async(func() error { return c.Run(background, test.lead) })
			synctest.Wait()
			go c.Stop()
			require.NoError(w, <-ended)
			require.NotEmpty(w, failed)
			require.ErrorIs(w, <-failed, test.reason)
		})
	}
}
