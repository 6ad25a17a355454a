// Package faults is the table of faults of `leadership run` as a test: what is killed, frozen or cut off, and for how
// long the old command ran beside the next leader's.
//
// A trial starts a wrapper with a command that beats: it writes the time into shared memory each millisecond, by
// CLOCK_BOOTTIME, and ignores every signal that can be ignored. A rival waits with the same wrapper. The trial makes the
// fault, waits until the rival's command runs, and counts the beats of the old command after that.
//
//	go test ./cmd/leadership/faults                    # the core, on files
//	go test ./cmd/leadership/faults -every -v          # every fault, command, mode and user, on every store, and what
//	                                                   # consul lock and etcdctl lock do; prints the tables
//	go test ./cmd/leadership/faults -run /namespace/   # part of it
//
// Some faults need root, a cgroup of version 2, or a controller of version 1. A machine without them does not show these
// cells; the result names each.
package faults
