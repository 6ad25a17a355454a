package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/store"
)

// RequestLimit bounds a request. Servers without a leader hold one for up to 7 s before they give up.
const RequestLimit = 10 * time.Second

// Request sends a request for keys and waits for its answer, or for ctx. If there is none, the outcome is unknown, or the
// request was not sent. While Burst requests are under way the next one waits, unless it confirms the watches.
func Request[T any](ctx context.Context, c *Client, f func(ctx context.Context) (T, error)) (value T, err error) {
	ctx, cancel := context.WithTimeout(ctx, RequestLimit)
	defer cancel()
	if ctx.Value(confirmingKey{}) == nil {
		select {
		case c.burst <- struct{}{}:
			defer func() { <-c.burst }()
		case <-ctx.Done():
			return value, fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
		}
	}
	var sent atomic.Bool
	value, err = f(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }}))
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

// confirmingKey is the key of the mark in a context that its requests confirm the watches.
type confirmingKey struct{}

// Confirming returns a context whose requests confirm the watches.
func Confirming(ctx context.Context) context.Context {
	return context.WithValue(ctx, confirmingKey{}, true)
}
