package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// RequestLimit bounds a request. Servers without a leader hold one for up to 7 s before they give up.
const RequestLimit = 10 * time.Second

// Request sends a request and waits for its answer, or for ctx. If there is none, the outcome is unknown, or the request was
// not sent.
func Request[T any](ctx context.Context, c *Client, f func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestLimit)
	defer cancel()
	var sent atomic.Bool
	value, err := f(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }}))
	cause := context.Cause(ctx)
	switch {
	case cause == nil || !errors.Is(err, cause):
		return value, c.Explain(err)
	case errors.Is(cause, context.DeadlineExceeded):
		cause = fmt.Errorf("no answer in time: %w", cause)
	}
	if sent.Load() {
		return value, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, cause)
	}
	return value, fmt.Errorf("%w: %w", store.ErrUnavailable, cause)
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
