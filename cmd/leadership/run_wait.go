package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
)

// patience decides when a runner that has not led within --wait gives up, and why. If a process ahead in the queue lives,
// it does what this one waits for: that is errNeverLed. A dead process might still be ahead: its ballot stands until the
// store has ended its session. So a runner that waits behind ballots without a sign of life goes on waiting, up to the
// store's bound. Every other reason is a failure: this process did not stand, and perhaps no other does.
type patience struct {
	store    store.Store
	election string
	address  string        // of the store, for errors
	bound    time.Duration // a ballot stands for at most so long after its process has died
	began    time.Time
	wait     time.Duration // --wait

	over  chan struct{} // closed by run when the runner gives up, after the fields below are written
	lives bool          // a process ahead lives
	err   error         // of the last request, if no process ahead is known to live
}

// errNeverLed ends a candidacy that has waited behind a process that lives for all of --wait.
var errNeverLed = errors.New("this process has never led within --wait: another one is ahead of it")

// run returns when the runner is to give up, or ctx has ended.
func (p *patience) run(ctx context.Context, status func() leadership.Status) {
	for end := p.began.Add(p.wait); ; {
		s := status()
		waits := s.State == leadership.Waiting && !p.lives
		if proof := s.Since.Add(p.bound); waits && (!time.Now().Before(proof) || !time.Now().Before(end)) {
			p.lives, p.err = p.behind(ctx, s)
		}
		last := end
		if waits && !p.lives {
			last = end.Add(p.bound)
		}
		now := time.Now()
		if !now.Before(last) {
			break
		}
		next := last
		if !p.lives {
			for _, at := range []time.Time{end, s.Since.Add(p.bound), now.Add(min(time.Second, p.bound/4))} {
				if at.After(now) && at.Before(next) {
					next = at
				}
			}
		}
		if !sleepUntil(ctx, next) {
			return
		}
	}
	if !p.lives && p.err == nil && status().LastError == nil { // the first attempt might still wait for an answer
		asking, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, p.err = p.store.Ballots(asking, p.election)
	}
	if ctx.Err() == nil {
		close(p.over)
	}
}

// behind reports whether a process ahead of a ballot that waits has lived meanwhile: its session was renewed, as some
// stores know, or its ballot stood before this one was cast, and still stands when the store's bound has passed.
func (p *patience) behind(ctx context.Context, s leadership.Status) (lives bool, err error) {
	proved, waited := time.Since(s.Since) >= p.bound, time.Since(p.began)
	asking, cancel := context.WithTimeout(ctx, p.bound/4)
	defer cancel()
	list, err := p.store.Ballots(asking, p.election)
	at := slices.IndexFunc(list, func(b store.Standing) bool { return b.Token == s.Token })
	return at > 0 && (proved || slices.ContainsFunc(list[:at], func(b store.Standing) bool {
		return 0 < b.Silence && b.Silence < waited
	})), err
}

// because returns why the runner gives up. missed is why the last turn ended before the command was started, or nil.
func (p *patience) because(s leadership.Status, missed error) error {
	if p.lives {
		return errNeverLed
	}
	cause := cmp.Or(missed, s.LastError, p.err)
	switch {
	case s.State == leadership.Unfit:
		cause = fmt.Errorf("the check fails: %w", s.Unfit)
	case cause == nil:
		cause = errors.New("the store has not confirmed it as the leader")
	}
	f := &failure{code: exitUnavailable, err: fmt.Errorf("this process could not lead in election %q on %s within --wait, and no other is known to: %w", p.election, p.address, cause)}
	switch {
	case errors.Is(cause, store.ErrDenied):
		f.code, f.advice = exitDenied, adviceDenied
	case errors.Is(cause, store.ErrUnavailable):
		f.advice = "check the address, and that the service runs and can be reached from here"
	}
	return f
}

// sleepUntil waits until a time, and reports whether ctx goes on.
func sleepUntil(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
