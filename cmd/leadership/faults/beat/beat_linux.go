package main

import (
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/go-leadership/leadership/cmd/leadership/faults/internal/pulse"
)

// beat runs a variant of the command. From the first fork on nothing may allocate memory or grow the stack: a child has
// one thread of the Go runtime's.
func beat(path, variant string) {
	started := now()
	p, fd, err := pulse.Open(path)
	check("open", err)
	// Every process of the command shares the lock. It is free when none is left.
	check("flock", syscall.Flock(fd, syscall.LOCK_SH|syscall.LOCK_NB))
	signal.Ignore()
	atomic.CompareAndSwapInt64(&p.Start, 0, started)
	end := started + int64(pulse.Limit)
	switch variant {
	case "plain":
		for live(p, end) {
			mark(p)
		}
	case "child":
		fork()
		for live(p, end) {
			mark(p)
		}
	case "daemon":
		if fork() == 0 {
			_, _, _ = syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0)
			if fork() != 0 {
				exit()
			}
			for live(p, end) {
				mark(p)
			}
			exit()
		}
		for live(p, end) { // the command itself only stays
		}
	case "forking":
		if fork() == 0 {
			for live(p, end) {
				mark(p)
				if pid := fork(); pid != 0 && pid != failed {
					exit()
				}
			}
			exit()
		}
		for live(p, end) {
			var status int32
			_, _, _ = syscall.RawSyscall6(syscall.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&status)), syscall.WNOHANG, 0, 0, 0)
		}
	default:
		fail("there is no variant %q", variant)
	}
	os.Exit(0)
}

// mark writes a beat.
//
//go:nosplit
func mark(p *pulse.Pulse) {
	t := now()
	n := atomic.AddInt64(&p.Count, 1)
	atomic.StoreInt64(&p.Beats[n%pulse.Kept], t)
}

// live waits until the next beat is due, and reports whether it is to come.
//
//go:nosplit
func live(p *pulse.Pulse, end int64) bool {
	pause := syscall.Timespec{Nsec: int64(pulse.Interval)}
	_, _, _ = syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&pause)), 0, 0)
	return atomic.LoadInt64(&p.Stop) == 0 && now() < end
}

//go:nosplit
func now() int64 {
	const boottime = 7
	var ts syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, boottime, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

// fork returns 0 in the child, and failed if there is none.
//
//go:nosplit
func fork() uintptr {
	pid, _, _ := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	return pid
}

const failed = ^uintptr(0)

//go:nosplit
func exit() {
	_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
}
