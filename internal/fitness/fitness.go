// Package fitness makes the checks that decide whether a candidate may stand and lead: see leadership.Fitness.
package fitness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/suspension"
	"github.com/go-leadership/leadership/internal/teller"
)

// Checks makes checks, one at a time, and counts their results. A nil Checks is always fit.
type Checks struct {
	Check          func(ctx context.Context) error
	Every, Timeout time.Duration
	Fall, Rise     int
	Gate           chan struct{}   // has room for one, and holds one while a check is under way; several Checks may share it
	Changed        func(why error) // is called, if it is set, when the checks have become fit, or unfit and why

	mu    sync.Mutex
	fit   context.Context // guarded by mu, as are all below: ends when the checks become unfit; nil while they are
	end   context.CancelCauseFunc
	last  time.Time     // when the last check that has succeeded had; zero if none has
	why   error         // why the last check has failed; nil if it has succeeded
	falls int           // failures in a row
	rises int           // successes in a row
	risen chan struct{} // closed and replaced when the checks become fit; nil if nothing waits for it
}

var errNotChecked = errors.New("it has not been checked yet")

// Run makes checks until ctx ends, and returns when the last one has returned.
func (c *Checks) Run(ctx context.Context) {
	for ctx.Err() == nil {
		c.check(ctx)
		timer := time.NewTimer(c.Every)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// check makes one check. One that takes too long has failed, and whatever it returns later counts for nothing.
func (c *Checks) check(ctx context.Context) {
	select {
	case c.Gate <- struct{}{}:
		defer func() { <-c.Gate }()
	case <-ctx.Done(): // an earlier check hangs
		return
	}
	checking, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- teller.Call(func() error { return c.Check(checking) }) }()
	began, late := time.Now(), time.NewTimer(c.Timeout)
	defer late.Stop()
	for hangs := false; ; {
		select {
		case err := <-result:
			if !hangs && ctx.Err() == nil {
				c.count(err)
			}
			return
		case <-late.C:
			hangs = true
			c.count(fmt.Errorf("the check has not returned after %v", time.Since(began)))
			late.Reset(c.Every + c.Timeout)
		}
	}
}

// count counts the result of a check.
func (c *Checks) count(err error) {
	c.mu.Lock()
	c.why = err
	if err == nil {
		c.falls, c.rises, c.last = 0, c.rises+1, time.Now()
	} else {
		c.falls, c.rises = c.falls+1, 0
	}
	changed := true
	switch {
	case c.fit == nil && c.rises >= c.Rise:
		c.fit, c.end = context.WithCancelCause(context.Background())
		if c.risen != nil {
			close(c.risen)
			c.risen = nil
		}
	case c.fit != nil && c.falls >= c.Fall:
		c.end(err)
		c.fit = nil
	default:
		changed = false
	}
	c.mu.Unlock()
	if changed && c.Changed != nil {
		c.Changed(err)
	}
}

// Fit returns a context that ends when the checks become unfit, and why. If they are unfit, it waits, and calls waits before.
// When ctx ends, it returns the cause.
func (c *Checks) Fit(ctx context.Context, waits func()) (context.Context, error) {
	if c == nil {
		return context.Background(), nil
	}
	for {
		c.mu.Lock()
		if c.fit != nil {
			defer c.mu.Unlock()
			return c.fit, nil
		}
		if c.risen == nil {
			c.risen = make(chan struct{})
		}
		risen := c.risen
		c.mu.Unlock()
		waits()
		select {
		case <-risen:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Err returns why the last check has failed, or nil.
func (c *Checks) Err() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why == nil && c.last.IsZero() {
		return errNotChecked
	}
	return c.why
}

// Fresh returns nil if the last check has succeeded, within Every + Timeout.
func (c *Checks) Fresh() error {
	if err := c.Err(); err != nil || c == nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if age := suspension.Since(c.last); age > c.Every+c.Timeout {
		return fmt.Errorf("the last check was %v ago", age)
	}
	return nil
}
