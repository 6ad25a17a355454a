package main

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminalStops are the signals of a terminal to a job in the background that reads, or that writes after stty tostop.
var terminalStops = []os.Signal{syscall.SIGTTIN, syscall.SIGTTOU}

// writeInBackground lets the goroutine write to a terminal in the background, whatever stty says: the kernel allows that
// to a thread that blocks SIGTTOU. With the handler alone the write would be tried again and again. The thread ends with
// the goroutine.
func writeInBackground() {
	runtime.LockOSThread()
	var block unix.Sigset_t
	block.Val[0] = 1 << (unix.SIGTTOU - 1)
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, &block, nil) // it does not fail with these arguments
}
