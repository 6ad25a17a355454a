package main

import (
	"errors"
	"slices"
	"time"

	"github.com/go-leadership/leadership"
)

// The back-off between two turns, and the time within which failures are counted.
const (
	firstDelay = time.Second
	lastDelay  = time.Minute
)

// retries decides whether, and when, a runner stands again.
type retries struct {
	enabled bool // also after the command has run
	limit   int  // of failures within lastDelay; 0: there is none

	delay    time.Duration
	failures []time.Time // within lastDelay
}

// next returns how long to wait before the next turn. It returns false if this was the last: a signal has asked for the
// end, the command has succeeded, or it has failed too often. A runner whose command has not been started still waits to
// lead, so it stands again whatever the flags say.
func (r *retries) next(o outcome, asked bool, now time.Time, took time.Duration) (time.Duration, bool) {
	switch {
	case asked || o.kind == final:
		return 0, false
	case !r.enabled && o.kind != missed || o.kind == exited && o.code == 0:
		return 0, false
	case o.kind != missed && o.kind != lost && r.tooMany(now):
		return 0, false
	}
	if took >= lastDelay || errors.Is(o.err, leadership.ErrRequested) { // requests are no churn
		r.delay = 0
	}
	r.delay = min(max(2*r.delay, firstDelay), lastDelay)
	return r.delay, true
}

// tooMany counts a failure.
func (r *retries) tooMany(now time.Time) bool {
	r.failures = slices.DeleteFunc(r.failures, func(t time.Time) bool { return now.Sub(t) >= lastDelay })
	r.failures = append(r.failures, now)
	return r.limit > 0 && len(r.failures) >= r.limit
}
