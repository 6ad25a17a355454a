//go:build !linux

package guard

import (
	"context"
	"runtime"
	"time"
)

// Main returns at once: there is no guardian on this system.
func Main() {}

// SelfTest fails: only Linux has a timer in the kernel that kills a process that is stopped.
func SelfTest(context.Context) (Mode, error) {
	return Mode{}, &unsupportedError{[]string{runtime.GOOS + " is not Linux"}}
}

func start(c Config, lease func() time.Duration) (running, error) {
	if c.Mode.Kind != Unguarded {
		return nil, &unsupportedError{[]string{runtime.GOOS + " is not Linux"}}
	}
	return startPlain(c, lease)
}
