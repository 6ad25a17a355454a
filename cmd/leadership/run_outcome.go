package main

import (
	"errors"
	"fmt"

	"github.com/go-leadership/leadership/store"
)

// The exit codes of run, beside those of the command, and of a usage error.
const (
	exitLost     = 75  // EX_TEMPFAIL
	exitNeverLed = 124 // as of timeout(1)
	exitFailed   = 125 // as of timeout(1), env(1), ...
)

// kind says what an outcome means for the next turn.
type kind int

const (
	_      kind = iota
	final       // the command has not run, and will not
	missed      // the leadership ended before the command was started; never the last outcome
	exited      // the command has ended by itself, or by a signal
	lost        // the command was stopped because its leadership ended
	failed      // the command could not be run, or did not get ready
)

// outcome is how a turn has ended.
type outcome struct {
	kind kind
	code int   // the exit code if it is the last turn
	err  error // nil, or what to say of it
}

// broken is the outcome of a permanent error.
func broken(err error) outcome {
	switch {
	case errors.Is(err, store.ErrInvalid):
		return outcome{final, exitUsage, err}
	case errors.Is(err, store.ErrDenied):
		return outcome{final, exitDenied, &failure{exitDenied, err, adviceDenied}}
	}
	return outcome{final, exitFailed, err}
}

// failureCode is the exit code of a command that could not be run.
func failureCode(err error) int {
	if errors.Is(err, store.ErrDenied) {
		return exitDenied
	}
	return exitFailed
}

// ended is the outcome of a turn that has been left before the command was started.
func ended(cause error) outcome {
	var sig interrupted
	var why *failure
	switch {
	case errors.As(cause, &sig):
		return outcome{final, exitSignal + int(sig.signal), nil}
	case errors.As(cause, &why):
		return outcome{final, why.code, why}
	case errors.Is(cause, errNeverLed):
		return outcome{final, exitNeverLed, cause}
	}
	return broken(cause)
}

// reason says how it ended.
func (o outcome) reason() string {
	if o.err != nil {
		return o.err.Error()
	}
	return fmt.Sprintf("the command has ended with exit code %d", o.code)
}
