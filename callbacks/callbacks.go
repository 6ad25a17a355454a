// Package callbacks drives candidates and followers by callbacks, in the style of the zk gem's elections. It stands on the
// public API of package leadership.
//
//	err := callbacks.Run(ctx, candidate, callbacks.Candidate{
//		Won:   func(ctx context.Context, term *leadership.Term) error { return becomePrimary(ctx, term.Token()) },
//		Ended: func(term *leadership.Term, cause error) { becomeStandby() },
//	})
//
// A callback that panics or calls runtime.Goexit has failed, and does not end the program.
package callbacks

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/teller"
	"github.com/go-leadership/leadership/store"
)

// Candidate has the callbacks of a candidate. Each may be nil. There is one call at a time.
type Candidate struct {
	// Won is called when the candidate has won, to take over. Run acknowledges when Won has returned; Won does not. ctx ends
	// with the term. After an error the term ends, and the candidate stands again, at the back of the queue.
	Won func(ctx context.Context, term *leadership.Term) error
	// TakeoverFailed is called after a term that followers have not heard of, to undo what Won began. It is not called if they
	// might have, since no answer to the acknowledgement came. The cause is that of the term's context.
	TakeoverFailed func(cause error)
	// Ended is called once for each term, after Won and TakeoverFailed. No other candidate leads before Ended has returned, as
	// long as the session is renewed: the ballot still stands. The cause is that of the term's context.
	Ended func(term *leadership.Term, cause error)
}

// Run is Run of the candidate with callbacks.
func Run(ctx context.Context, c *leadership.Candidate, calls Candidate) error {
	return c.Run(ctx, calls.lead)
}

// lead leads for one term.
func (calls Candidate) lead(ctx context.Context, term *leadership.Term) error {
	known, failed := calls.takeOver(ctx, term)
	if failed == nil {
		<-ctx.Done()
	}
	term.End(failed) // unless it is over
	cause := context.Cause(ctx)
	if calls.TakeoverFailed != nil && !known && !term.Acknowledged() {
		failed = errors.Join(failed, call("TakeoverFailed", func() error { calls.TakeoverFailed(cause); return nil }))
	}
	if calls.Ended != nil {
		failed = errors.Join(failed, call("Ended", func() error { calls.Ended(term, cause); return nil }))
	}
	return failed
}

// takeOver returns nil once the term has been acknowledged. After an error, known reports whether followers might know of the
// term all the same.
func (calls Candidate) takeOver(ctx context.Context, term *leadership.Term) (known bool, err error) {
	if calls.Won != nil {
		if err := call("Won", func() error { return calls.Won(ctx, term) }); err != nil {
			return false, err // whatever it matches: nothing was sent
		}
	}
	err = term.Acknowledge(ctx)
	return errors.Is(err, store.ErrUnknownOutcome), err
}

// Follower has the callbacks of a follower. Each may be nil. There is one call at a time. A leader that came and went during
// a call is left out.
type Follower struct {
	// NewLeader is called for each leader that has acknowledged, the present one included. ctx ends with that of Follow, and
	// with the follower.
	NewLeader func(ctx context.Context, leader leadership.Leader)
	// LeaderGone is called when there is no leader any more, and at the start if there is none. Between two leaders it is
	// called once, even if the second took over at once.
	LeaderGone func(ctx context.Context)
}

// Follow calls the callbacks until ctx or the follower ends. It returns the cause of ctx, the follower's Err, or the error of
// a callback that has panicked.
func Follow(ctx context.Context, f *leadership.Follower, calls Follower) error {
	bound, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	watching.Go(func() {
		for range f.Changes(bound) { // until the follower ends, even while a callback runs
		}
		cancel(f.Err())
	})
	known := false
	for leader := range f.Changes(ctx) {
		if calls.LeaderGone != nil && (known || leader.Revision == 0) {
			if err := call("LeaderGone", func() error { calls.LeaderGone(bound); return nil }); err != nil {
				return err
			}
		}
		known = leader.Revision != 0
		if calls.NewLeader != nil && known {
			if err := call("NewLeader", func() error { calls.NewLeader(bound, leader); return nil }); err != nil {
				return err
			}
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return f.Err()
}

// call calls a callback and returns its error, with its name.
func call(name string, f func() error) error {
	if err := teller.Call(f); err != nil {
		return fmt.Errorf("callback %s: %w", name, err)
	}
	return nil
}
