package demo

import (
	"os"
	"syscall"
	"unsafe"
)

// signals freeze a process and let it go on.
var signals = struct{ freeze, thaw os.Signal }{syscall.SIGSTOP, syscall.SIGCONT}

// childAttributes make a child end when this process ends, and keep the terminal's Ctrl-C from it: this process gets
// the signal and ends the children.
func childAttributes() (*syscall.SysProcAttr, error) {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}, nil
}

// windowSize returns the size of the terminal that f is, in characters, and false if f is none. The size is zero if the
// terminal has not been told it.
func windowSize(f *os.File) (width, height int, ok bool) {
	var size struct{ rows, columns, x, y uint16 }
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	return int(size.columns), int(size.rows), errno == 0
}
