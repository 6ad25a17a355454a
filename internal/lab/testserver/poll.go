package testserver

import (
	"context"
	"fmt"
	"time"
)

// The intervals at which poll checks: more and more seldom, since to ask a server costs it time that its start needs.
const (
	firstInterval = 10 * time.Millisecond
	lastInterval  = 100 * time.Millisecond
)

// poll calls check until nothing is missing any more, check gives up with an
// error, or ctx ends. The error then says what was missing last.
func poll(ctx context.Context, check func(context.Context) (missing string, err error)) error {
	interval := firstInterval
	for last := "nothing was tried"; ; {
		if ctx.Err() != nil {
			return fmt.Errorf("testserver: %w; last: %s", context.Cause(ctx), last)
		}
		missing, err := check(ctx)
		if err != nil || missing == "" {
			return err
		}
		if ctx.Err() == nil {
			last = missing
		}
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
		interval = min(interval*5/4, lastInterval)
	}
}
