package leadership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/suspension"
	"github.com/go-leadership/leadership/internal/teller"
	"github.com/go-leadership/leadership/store"
)

// Fitness lets a candidate stand, and lead, only while a check succeeds. The candidate casts no ballot before the check has
// succeeded Rise times. When the check has failed Fall times in a row, a ballot that waits is given back, and a term ends with
// ErrUnfit. No term begins unless the last check has succeeded, within Every + Timeout.
//
// Checks are made one at a time, as long as Run or Campaign goes on; Done waits for the one under way. If all candidates are
// unfit there is no leader: do not check what all of them share.
type Fitness struct {
	// Check returns why the candidate is not fit, or nil. The term is nil unless the candidate leads. ctx ends after Timeout: a
	// check that takes longer has failed, once for each Every + Timeout until it returns. A panic is a failure.
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
	if f.Every == 0 {
		f.Every = 5 * time.Second
	}
	if f.Timeout == 0 {
		f.Timeout = f.Every
	}
	if f.Fall == 0 {
		f.Fall = 3
	}
	f.Rise = max(f.Rise, 1)
	return f, nil
}

// fitness is what a drive knows of its candidate's fitness. Its goroutine makes the checks.
type fitness struct {
	Fitness
	c *Candidate

	mu    sync.Mutex
	fit   context.Context // guarded by mu, as are all below: ends when the candidate becomes unfit; nil while it is
	end   context.CancelCauseFunc
	why   error         // why the last check has failed; nil if it has succeeded
	falls int           // failures in a row
	rises int           // successes in a row
	last  time.Time     // when the last check that has succeeded had
	risen chan struct{} // closed and replaced when the candidate becomes fit
}

// newFitness returns the fitness of a drive's candidate, or nil if it has no check.
func newFitness(c *Candidate) *fitness {
	if c.fitness.Check == nil {
		return nil
	}
	return &fitness{Fitness: c.fitness, c: c, why: errNotChecked, risen: make(chan struct{})}
}

var errNotChecked = errors.New("it has not been checked yet")

// run checks until ctx ends.
func (f *fitness) run(ctx context.Context) {
	for ctx.Err() == nil {
		f.check(ctx)
		sleep(ctx, f.Every)
	}
}

// check makes one check, and returns when that has returned. One that takes too long has failed, and whatever it returns
// later counts for nothing.
func (f *fitness) check(ctx context.Context) {
	select {
	case f.c.checking <- struct{}{}:
		defer func() { <-f.c.checking }()
	case <-ctx.Done(): // a check of an earlier campaign hangs
		return
	}
	checking, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	result := make(chan error, 1)
	term, _ := f.c.Term()
	go func() { result <- teller.Call(func() error { return f.Check(checking, term) }) }()
	began, late := time.Now(), time.NewTimer(f.Timeout)
	defer late.Stop()
	for hangs := false; ; {
		select {
		case err := <-result:
			if !hangs && ctx.Err() == nil {
				f.note(err)
			}
			return
		case <-late.C:
			hangs = true
			f.note(fmt.Errorf("the check has not returned after %v", time.Since(began)))
			late.Reset(f.Every + f.Timeout)
		}
	}
}

// note notes the result of a check.
func (f *fitness) note(err error) {
	f.mu.Lock()
	fit := f.fit != nil
	f.why = err
	if err == nil {
		f.falls, f.rises, f.last = 0, f.rises+1, time.Now()
	} else {
		f.falls, f.rises = f.falls+1, 0
	}
	switch {
	case !fit && f.rises >= f.Rise:
		f.fit, f.end = context.WithCancelCause(context.Background())
		close(f.risen)
		f.risen = make(chan struct{})
	case fit && f.falls >= f.Fall:
		f.end(fmt.Errorf("%w: %w", ErrUnfit, err))
		f.fit = nil
	}
	changed := fit != (f.fit != nil)
	f.mu.Unlock()
	switch {
	case changed && fit:
		f.c.say(slog.LevelWarn, "unfit: the check fails", "error", err)
	case changed:
		f.c.say(slog.LevelInfo, "fit: the check succeeds")
	}
}

// await waits until the candidate is fit, and returns a context that ends when it becomes unfit, with an error that matches
// ErrUnfit.
func (f *fitness) await(ctx context.Context) (fit context.Context, err error) {
	for {
		f.mu.Lock()
		fit, risen := f.fit, f.risen
		f.mu.Unlock()
		if fit != nil {
			return fit, nil
		}
		f.c.unfit()
		select {
		case <-risen:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// fresh returns nil if the last check has succeeded, not too long ago.
func (f *fitness) fresh() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch age := suspension.Since(f.last); {
	case f.why != nil:
		return fmt.Errorf("%w: %w", ErrUnfit, f.why)
	case age > f.Every+f.Timeout:
		return fmt.Errorf("%w: the last check was %v ago", ErrUnfit, age)
	}
	return nil
}

// result returns why the last check has failed, or nil.
func (f *fitness) result() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.why
}
