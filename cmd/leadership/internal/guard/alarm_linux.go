package guard

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// alarm is a timer on CLOCK_BOOTTIME. Go's timers use CLOCK_MONOTONIC.
type alarm struct {
	file *os.File
	fd   int
	C    chan struct{} // written by ring at each expiry; has room for one
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("timerfd_create: %w", err)
	}
	a := &alarm{os.NewFile(uintptr(fd), "timer"), fd, make(chan struct{}, 1)}
	go a.ring()
	return a, nil
}

// ring ends when the process does.
func (a *alarm) ring() {
	var expiries [8]byte
	for {
		if _, err := a.file.Read(expiries[:]); err != nil {
			return
		}
		select {
		case a.C <- struct{}{}:
		default:
		}
	}
}

// set makes the alarm expire at i, at once if i has passed. It replaces an earlier instant.
func (a *alarm) set(i instant) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, int64(i)))} // zero would disarm it
	if err := unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
		return fmt.Errorf("timerfd_settime: %w", err)
	}
	return nil
}
