package suspension

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

// From linux/timerfd.h.
const (
	clockRealtime = 0
	timerFlags    = syscall.O_NONBLOCK | syscall.O_CLOEXEC // TFD_NONBLOCK and TFD_CLOEXEC
	armFlags      = 1 | 2                                  // TFD_TIMER_ABSTIME and TFD_TIMER_CANCEL_ON_SET
)

// timer is a timer of CLOCK_REALTIME that never fires. The kernel cancels it when the clock jumps: when the machine resumes,
// and when the clock is set. See timerfd_create(2), TFD_TIMER_CANCEL_ON_SET.
type timer struct{ *os.File }

func open() (events, error) {
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, clockRealtime, timerFlags, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("timerfd_create", errno)
	}
	t := timer{os.NewFile(fd, "timerfd")}
	if err := t.arm(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// arm sets the timer to the last second that the kernel can express here. Until it is armed again the kernel says once that
// the clock has jumped. ECANCELED says that it has jumped since it was armed last; the timer is armed all the same.
func (t timer) arm() error {
	spec := struct{ interval, value syscall.Timespec }{value: syscall.Timespec{Sec: 1<<(8*unsafe.Sizeof(syscall.Timespec{}.Sec)-1) - 1}}
	raw, err := t.SyscallConn()
	if err != nil {
		return err
	}
	var errno syscall.Errno
	err = raw.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, fd, armFlags, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	})
	if err == nil && errno != 0 && errno != syscall.ECANCELED {
		err = os.NewSyscallError("timerfd_settime", errno)
	}
	return err
}

func (t timer) next() error {
	var expirations [8]byte
	if _, err := t.Read(expirations[:]); !errors.Is(err, syscall.ECANCELED) {
		return errors.Join(errors.New("the timer is closed, or has fired"), err)
	}
	return t.arm() // before resumed is called: a later jump is told too
}
