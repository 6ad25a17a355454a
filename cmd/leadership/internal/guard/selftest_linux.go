package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// SelfTest finds the best mode that this machine has, and tries that mode: it starts a guardian with an init, stops the
// guardian, and expects the kernel to kill the guardian. SelfTest takes about a tenth of a second. It fails if no guarded
// mode works, and while a Process runs.
func SelfTest(ctx context.Context) (Mode, error) {
	var reasons []string
	for _, try := range []struct {
		mode Mode
		name string
		need func() error
	}{
		{namespaceMode(false), "a PID namespace", nothing},
		{namespaceMode(true), "a PID namespace in a user namespace", noCapabilities},
		{subreaperMode(), "a subreaper", checkChildren},
	} {
		err := try.need()
		if err == nil {
			var notes []string
			if notes, err = selfTest(ctx, try.mode); err == nil {
				try.mode.Reasons = reasons
				try.mode.Notes = append(try.mode.Notes, notes...)
				return try.mode, nil
			}
		}
		if ctx.Err() != nil {
			return Mode{}, ctx.Err()
		}
		reasons = append(reasons, fmt.Sprintf("%s: %v", try.name, err))
	}
	return Mode{}, &unsupportedError{reasons}
}

func nothing() error { return nil }

// noCapabilities refuses a user namespace if this process has capabilities: the command would lose them.
func noCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&header, &have[0]); err != nil {
		return err
	}
	if have[0].Effective != 0 || have[1].Effective != 0 {
		return errors.New("the command would lose the capabilities of this process")
	}
	return nil
}

// selfTest tries a mode. The time until the kernel kills the guardian is short at first. On a busy machine the guardian
// might die before selfTest sees it stopped. Then selfTest tries a longer time.
func selfTest(ctx context.Context, m Mode) (notes []string, err error) {
	for _, after := range []time.Duration{60 * time.Millisecond, 500 * time.Millisecond, 3 * time.Second, 10 * time.Second} {
		var again bool
		if notes, again, err = freezeGuardian(ctx, m, after); !again || ctx.Err() != nil {
			return notes, err
		}
	}
	return nil, err
}

// freezeGuardian starts a guardian that stops itself, and expects the kernel to kill that guardian after a time.
func freezeGuardian(ctx context.Context, m Mode, after time.Duration) (notes []string, again bool, err error) {
	v, err := launch(settings{Mode: m.Kind, User: m.UserNamespace, SelfTest: true}, Config{}, now().add(after), 5*time.Second)
	if err != nil {
		return nil, false, err
	}
	select {
	case <-v.done:
	case <-ctx.Done():
		v.killNow()
		<-v.done
	}
	startErr := v.running(nil)
	switch killed := v.end.guardian.Signaled() && v.end.guardian.Signal() == unix.SIGKILL; {
	case ctx.Err() != nil:
		return nil, false, ctx.Err()
	case v.silent:
		return nil, false, errors.New("the kernel's timer did not kill a stopped guardian")
	case !killed && startErr != nil: // for example because the time was over before the guardian began
		return nil, true, startErr
	case !killed:
		return nil, false, errors.New("the guardian has ended by itself, though it had been stopped")
	case startErr != nil || !v.frozen:
		return nil, true, fmt.Errorf("the guardian was not seen stopped within %v", after)
	case m.Kind == Namespace && v.pid != 1:
		return nil, false, fmt.Errorf("the init has process id %d, not 1", v.pid)
	}
	return v.notes, false, nil
}
