package leadership

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-leadership/leadership/internal/fitness"
	"github.com/go-leadership/leadership/store"
)

// Fitness lets a candidate stand and lead only while a check succeeds. After Rise successes in a row it stands; after Fall
// failures in a row, a ballot that waits is withdrawn, and a term ends with ErrUnfit. A term begins only if the last check has
// succeeded, within Every + Timeout. Do not check what all candidates share: if all are unfit, there is no leader.
type Fitness struct {
	// Check returns why the candidate is not fit, or nil. The term is nil unless the candidate leads. A check has failed if it
	// panics, or takes longer than Timeout, when ctx ends; then it fails again after each Every + Timeout until it returns.
	Check func(ctx context.Context, term *Term) error

	Every   time.Duration // from the end of one check to the next. Default: 5 s
	Timeout time.Duration // of a check. Default: Every
	Fall    int           // failures in a row that make the candidate unfit. Default: 3
	Rise    int           // successes in a row that make the candidate fit. Default: 1
}

// complete returns the settings with their defaults, or why they can't be used.
func (f Fitness) complete() (Fitness, error) {
	switch {
	case f.Check == nil:
		return f, &store.FieldError{Field: "fitness", Reason: "there is no check"}
	case f.Every < 0 || f.Timeout < 0 || f.Fall < 0 || f.Rise < 0:
		return f, &store.FieldError{Field: "fitness", Reason: "a number is negative"}
	}
	f.Every = cmp.Or(f.Every, 5*time.Second)
	f.Timeout = cmp.Or(f.Timeout, f.Every)
	f.Fall, f.Rise = cmp.Or(f.Fall, 3), cmp.Or(f.Rise, 1)
	return f, nil
}

// startChecks begins the checks of a drive, and returns how to end them, which waits for the one under way if asked to. It
// returns nil checks, which are always fit, if the candidate has none.
func (c *Candidate) startChecks() (checks *fitness.Checks, stop func(wait bool)) {
	f := c.fitness
	if f.Check == nil {
		return nil, func(bool) {}
	}
	checks = &fitness.Checks{
		Check: func(ctx context.Context) error {
			term, _ := c.Term()
			return f.Check(ctx, term)
		},
		Every: f.Every, Timeout: f.Timeout, Fall: f.Fall, Rise: f.Rise, Gate: c.checking,
		Changed: func(why error) {
			if why != nil {
				c.log(slog.LevelWarn, "unfit: the check fails", "error", why)
			} else {
				c.log(slog.LevelInfo, "fit: the check succeeds")
			}
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	c.tasks.run(func() { defer close(done); checks.Run(ctx) })
	return checks, func(wait bool) {
		cancel()
		if wait {
			<-done
		}
	}
}

// unfit returns the error of a term or a ballot that ends since a check has failed.
func unfit(why error) error { return fmt.Errorf("%w: %w", ErrUnfit, why) }
