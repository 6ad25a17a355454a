package file

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// clockBoottime is the number of CLOCK_BOOTTIME, from linux/time.h. All processes of the machine read the same clock, and
// it goes on while the machine is suspended.
const clockBoottime = 7

// bootTime returns the time since the machine was started.
func bootTime() time.Duration {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		panic("file: CLOCK_BOOTTIME can't be read, which Linux has since 2.6.39: " + errno.Error())
	}
	return time.Duration(ts.Nano())
}

// bootOffset returns by how much the clock is ahead for this process, which might be in a time namespace.
func bootOffset() (time.Duration, error) {
	own, err := os.Readlink("/proc/self/ns/time")
	if os.IsNotExist(err) {
		return 0, nil // the kernel has no time namespaces
	}
	children, err2 := os.Readlink("/proc/self/ns/time_for_children")
	text, err3 := os.ReadFile("/proc/self/timens_offsets") // that of the children
	switch {
	case err != nil || err2 != nil || err3 != nil:
		return 0, fmt.Errorf("can't find out whether the process is in a time namespace: is /proc mounted? %w", firstOf(err, err2, err3))
	case own != children:
		return 0, fmt.Errorf("the process is in another time namespace than its children: start it in that")
	}
	for line := range strings.Lines(string(text)) {
		var seconds, nanoseconds int64
		if n, _ := fmt.Sscanf(line, "boottime %d %d", &seconds, &nanoseconds); n == 2 {
			return time.Duration(seconds)*time.Second + time.Duration(nanoseconds), nil
		}
	}
	return 0, nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
