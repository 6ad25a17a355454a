//go:build !linux

package testserver

import (
	"errors"
	"os/exec"
	"sync/atomic"
	"time"
)

// process exists on Linux only: nothing else ends a child with its parent.
type process struct{ paused atomic.Bool }

var errLinuxOnly = errors.New("testserver: servers can be started on Linux only")

func startProcess(*exec.Cmd) (*process, error) { return nil, errLinuxOnly }

func (*process) ended() bool              { return true }
func (*process) stop(time.Duration) error { return errLinuxOnly }
func (*process) kill() error              { return errLinuxOnly }
func (*process) pause() error             { return errLinuxOnly }
func (*process) resume() error            { return errLinuxOnly }
