package guard

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// instant is a time of CLOCK_BOOTTIME. All processes of a machine share this clock, which goes on during a suspension.
type instant time.Duration

func now() instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(fmt.Sprintf("guard: clock_gettime: %v", err)) // not on Linux 2.6.39 and later
	}
	return instant(ts.Nano())
}

func (i instant) add(d time.Duration) instant { return i + instant(d) }

func (i instant) sub(j instant) time.Duration { return time.Duration(i - j) }

// killTimer is a timer of the kernel that sends SIGKILL to this process, even if the process is stopped or frozen: no
// thread of the process has to run. execve deletes the timer.
type killTimer uintptr

// sigevent is struct sigevent of the kernel, 64 bytes.
type sigevent struct {
	value  uintptr
	signal int32
	notify int32
	_      [12]int32
}

func newKillTimer() (killTimer, error) {
	event := sigevent{signal: int32(unix.SIGKILL)} // notify 0 is SIGEV_SIGNAL
	var id int32
	_, _, errno := unix.RawSyscall(unix.SYS_TIMER_CREATE, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&id)))
	if errno != 0 {
		return 0, fmt.Errorf("timer_create: %w", errno)
	}
	return killTimer(id), nil
}

// set makes the timer expire at i, at once if i has passed. It replaces an earlier instant.
func (t killTimer) set(i instant) error {
	spec := struct{ intervalSec, intervalNsec, sec, nsec int64 }{sec: int64(i) / 1e9, nsec: int64(i) % 1e9}
	_, _, errno := unix.RawSyscall6(sysTimerSettime, uintptr(t), unix.TFD_TIMER_ABSTIME, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("timer_settime: %w", errno)
	}
	return nil
}
