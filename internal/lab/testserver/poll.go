package testserver

import (
	"context"
	"fmt"
	"time"
)

const pollInterval = 20 * time.Millisecond

// poll calls check until nothing is missing any more, check gives up with an
// error, or ctx ends. The error then says what was missing last.
func poll(ctx context.Context, check func(context.Context) (missing string, err error)) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
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
		case <-tick.C:
		}
	}
}
