package adapter

import "time"

// Standstill is how late a process notices that a time has come, at least, if it stood still: by SIGSTOP, for example, or
// with its machine.
const Standstill = 100 * time.Millisecond

// StoodStill reports whether the process stood still at a time whose coming it notices now. Then that no answer has come says
// nothing about the server, and an answer that has come gets a Standstill to be read.
func StoodStill(due time.Time) bool { return time.Since(due) > Standstill }
