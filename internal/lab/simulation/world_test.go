package simulation_test

import (
	"context"
	"errors"
	"runtime/debug"
	"time"
)

const election = "database/primary"

var background = context.Background()

// errTakeover is the reason of a takeover that fails.
var errTakeover = errors.New("the disk is full")

// halt stops a candidate or follower and waits until nothing of it is left.
func halt(s interface {
	Stop()
	Done() <-chan struct{}
}) {
	s.Stop()
	<-s.Done()
}

// watchdog ends the tests, and prints the stacks of all goroutines, if a schedule does not end. Virtual time might stop
// because a goroutine spins, or go on for ever because stores renew their sessions while the schedule is stuck.
func watchdog(name string) (stop func() bool) {
	return time.AfterFunc(2*time.Minute, func() {
		debug.SetTraceback("all")
		panic(name + " is stuck")
	}).Stop
}
