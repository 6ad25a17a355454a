package file

import (
	"errors"
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

// showsUs returns an error if a /proc does not show this very process. The entries of others, or none, would say that the
// process is in no time namespace, and the directories to watch could not be found.
func showsUs(proc string) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(proc, &st); err != nil || st.Type != procfs {
		return fmt.Errorf("there is no proc file system at %s: mount it", proc)
	}
	if _, err := os.Readlink(proc + "/self"); os.IsNotExist(err) {
		return fmt.Errorf("%s is that of another PID namespace, and does not show this process: enter that namespace too (nsenter -p), "+
			"or mount the file system of this one", proc)
	}
	return nil
}

// bootOffset returns by how much the clock is ahead for this process, which might be in a time namespace.
func bootOffset(proc string) (time.Duration, error) {
	own, err := os.Readlink(proc + "/self/ns/time")
	if os.IsNotExist(err) {
		return 0, nil // the kernel has no time namespaces
	}
	children, err2 := os.Readlink(proc + "/self/ns/time_for_children")
	text, err3 := os.ReadFile(proc + "/self/timens_offsets") // that of the children
	if err := errors.Join(err, err2, err3); err != nil {
		return 0, fmt.Errorf("can't find out whether the process is in a time namespace: %w", err)
	}
	if own != children {
		return 0, errors.New("the process is in another time namespace than its children: start it in that")
	}
	return parseOffset(string(text))
}

// parseOffset finds the offset of CLOCK_BOOTTIME in the text of timens_offsets.
func parseOffset(text string) (time.Duration, error) {
	for line := range strings.Lines(text) {
		var seconds, nanoseconds int64
		if n, _ := fmt.Sscanf(line, "boottime %d %d", &seconds, &nanoseconds); n == 2 {
			return time.Duration(seconds)*time.Second + time.Duration(nanoseconds), nil
		}
	}
	return 0, fmt.Errorf("can't find the offset of the boot time in timens_offsets: %q", text)
}
