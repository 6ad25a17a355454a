package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-zookeeper/zk"
)

// result is what a request returned.
type result[T any] struct {
	value T
	err   error
}

// async sends a request. The channel gets one result and is then closed. The client library knows no contexts: a request
// lasts until it is answered or its connection ends, and might be carried out after its caller has gone.
func async[T any](l *link, request func(*zk.Conn) (T, error)) <-chan result[T] {
	ch := make(chan result[T], 1)
	if !l.driver.lifecycle.Go(func() {
		defer close(ch)
		value, err := request(l.client)
		ch <- result[T]{value, l.explain(err)}
	}) {
		ch <- result[T]{err: store.ErrClosed}
		close(ch)
	}
	return ch
}

// receive waits for the answer of a request, or for ctx: then the outcome is unknown.
func receive[T any](ctx context.Context, ch <-chan result[T]) (T, error) {
	select {
	case r := <-ch:
		return r.value, r.err
	case <-ctx.Done():
		var zero T
		return zero, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, context.Cause(ctx))
	}
}

func request[T any](ctx context.Context, l *link, f func(*zk.Conn) (T, error)) (T, error) {
	return receive(ctx, async(l, f))
}

// explain sorts the client library's errors. What the server said is certain; of everything else, raw network errors
// included, the request may have been carried out.
func explain(err error) error {
	if err == nil || slices.ContainsFunc(certain, func(e error) bool { return errors.Is(err, e) }) {
		return err
	}
	code, unknown := strings.CutPrefix(err.Error(), "unknown error: ") // of the server's, to the library
	switch {
	case errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrInvalidACL), errors.Is(err, zk.ErrAuthFailed):
		return fmt.Errorf("%w: %w", store.ErrDenied, err)
	case errors.Is(err, zk.ErrNoServer), errors.Is(err, zk.ErrSessionMoved):
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	case code == "-127": // throttled
		return engine.Answered(fmt.Errorf("%w: %w", store.ErrUnavailable, err))
	case unknown && code != "-1" && code != "-4" && code != "-7": // of the system, the connection, or late
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
}

// certain are answers of a server that has not carried out the request.
var certain = []error{
	zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNotEmpty, zk.ErrNoChildrenForEphemerals, zk.ErrBadArguments, zk.ErrInvalidPath,
}
