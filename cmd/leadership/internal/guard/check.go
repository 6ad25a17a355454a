package guard

import (
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"time"
)

// margins returns two times before the end of a lease: m1, when the guardian kills the command, and m2, when the kernel
// kills the guardian. The margins leave time for killing and reaping on a busy machine.
func margins(ttl time.Duration) (m1, m2 time.Duration) {
	m1 = max(500*time.Millisecond, ttl/10)
	return m1, m1 / 2
}

// MaxStopTimeout returns the longest StopTimeout that fits.
func (c Config) MaxStopTimeout() time.Duration {
	m1, _ := margins(c.TTL)
	return c.TTL - m1 - c.renewEvery()
}

func (c Config) renewEvery() time.Duration {
	if c.RenewEvery > 0 {
		return c.RenewEvery
	}
	return c.TTL / 3
}

func (c Config) logger() *slog.Logger {
	if c.Logger != nil {
		return c.Logger
	}
	return slog.New(slog.DiscardHandler)
}

// Check reports what is wrong with the configuration: times that do not fit, a command that does not exist
// (*ExecError), a mode that this machine does not have or Strict forbids.
func (c Config) Check() error {
	if len(c.Command) == 0 || c.Command[0] == "" {
		return errors.New("no command")
	}
	if c.TTL <= 0 || c.StopTimeout < 0 {
		return fmt.Errorf("a lease of %v and a stop timeout of %v: the first must be positive, the second not negative",
			c.TTL, c.StopTimeout)
	}
	if most := c.MaxStopTimeout(); most < c.StopTimeout {
		m1, _ := margins(c.TTL)
		if most < 0 {
			return fmt.Errorf("a lease of %v that is renewed every %v is too short: killing the command needs %v before its end",
				c.TTL, c.renewEvery(), m1)
		}
		return fmt.Errorf("the stop timeout %v is too long: with a lease of %v that is renewed every %v, and %v for killing the command, it is at most %v",
			c.StopTimeout, c.TTL, c.renewEvery(), m1, most)
	}
	if err := c.checkMode(); err != nil {
		return err
	}
	_, err := c.path()
	return err
}

// ErrStrict is returned if Strict is set on a machine without PID namespaces.
var ErrStrict = errors.New("strict needs a PID namespace, and this machine gives none")

func (c Config) checkMode() error {
	switch {
	case c.Mode.Kind == "":
		return errors.New("Config.Mode is missing")
	case c.Strict && c.Mode.Kind != Namespace:
		reasons := ""
		if len(c.Mode.Reasons) > 0 {
			reasons = " (" + strings.Join(c.Mode.Reasons, "; ") + ")"
		}
		return fmt.Errorf("%w%s", ErrStrict, reasons)
	}
	return nil
}

// path returns the path of the program.
func (c Config) path() (string, error) {
	if strings.ContainsRune(c.Command[0], '/') && c.Dir != "" {
		return c.Command[0], nil // it may be relative to Dir: the child finds out
	}
	path, err := exec.LookPath(c.Command[0])
	if err != nil {
		var lookup *exec.Error
		if errors.As(err, &lookup) {
			err = lookup.Err
		}
		return "", &ExecError{c.Command[0], err}
	}
	return path, nil
}
