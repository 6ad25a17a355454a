package store

import (
	"syscall"
	"time"
	"unsafe"
)

// The clocks' numbers, from linux/time.h.
const clockMonotonic, clockBoottime = 1, 7

// suspended returns how long the machine has been suspended since it was started: CLOCK_BOOTTIME − CLOCK_MONOTONIC.
// The difference grows by exactly the time of each suspension, and setting the wall clock does not change it.
func suspended() (time.Duration, bool) { return suspendedBy(readClock) }

// suspendedBy is suspended with the readings of read.
func suspendedBy(read func(clock uintptr) (time.Duration, bool)) (time.Duration, bool) {
	var boot, before, after time.Duration
	for range 5 { // again if the scheduler took the processor away between two readings
		var ok bool
		if before, ok = read(clockMonotonic); !ok {
			return 0, false
		}
		if boot, ok = read(clockBoottime); !ok {
			return 0, false
		}
		if after, ok = read(clockMonotonic); !ok {
			return 0, false
		}
		if after-before < time.Millisecond {
			break
		}
	}
	return boot - (before+after)/2, true
}

func readClock(id uintptr) (time.Duration, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}
