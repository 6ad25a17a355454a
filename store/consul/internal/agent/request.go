package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// RequestLimit bounds a request. Servers without a leader hold one for up to 7 s before they give up.
const RequestLimit = 10 * time.Second

// Request sends a request and waits for its answer, or for ctx. The request goes on when ctx ends, if it has been sent:
// a caller that gives up does not break a connection that others use. Its outcome is then unknown. What has not been sent
// leaves with its caller.
func Request[T any](ctx context.Context, c *Client, f func(ctx context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	answered := make(chan result, 1)
	var zero T
	if ctx.Err() != nil {
		return zero, fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
	}
	base, limit := c.Life.Background, RequestLimit
	if confirms(ctx) {
		base = Confirming(base)
		if deadline, ok := ctx.Deadline(); ok {
			limit = min(limit, time.Until(deadline))
		}
	}
	s := &sending{}
	sendCtx, cancel := context.WithTimeout(s.trace(base), limit)
	s.cancel = cancel
	if !c.Life.Go(func() {
		defer cancel()
		value, err := f(sendCtx)
		answered <- result{value, c.Explain(err)}
	}) {
		cancel()
		return zero, store.ErrClosed
	}
	select {
	case r := <-answered:
		return r.value, r.err
	case <-ctx.Done():
		cause := context.Cause(ctx)
		if errors.Is(cause, context.DeadlineExceeded) { // as of the request's own limit, which might end at the same time
			cause = fmt.Errorf("no answer in time: %w", cause)
		}
		if s.leave() {
			return zero, fmt.Errorf("%w: %w", store.ErrUnavailable, cause)
		}
		return zero, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, cause)
	}
}

// Certain asks up to three times: an odd answer is believed only if it keeps coming. What f does can be repeated.
func Certain[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	for range 2 {
		value, err := f(ctx)
		if !IsOdd(err) || ctx.Err() != nil {
			return value, err
		}
		adapter.Pause(ctx)
	}
	value, err := f(ctx)
	if IsOdd(err) && ctx.Err() == nil {
		err = errors.New(err.Error()) // asking again does not help
	}
	return value, err
}
