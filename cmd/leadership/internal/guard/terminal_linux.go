package guard

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// OwnsTerminal reports whether the command should get the terminal: stdin and stdout are one, so no pipeline needs it,
// and this process is in its foreground group.
func OwnsTerminal() bool {
	for _, fd := range []int{0, 1} {
		if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err != nil {
			return false
		}
	}
	foreground, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	return err == nil && foreground == unix.Getpgrp()
}

// TakeTerminal takes the terminal back from the command. The kernel sends SIGTTOU to a background group that takes the
// terminal. Only this thread blocks SIGTTOU: children would inherit an ignored signal.
func TakeTerminal() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var block, old unix.Sigset_t
	block.Val[0] = 1 << (unix.SIGTTOU - 1)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &block, &old) != nil {
		return
	}
	defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil) }()
	_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, unix.Getpgrp())
}
