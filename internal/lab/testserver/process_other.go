//go:build !linux

package testserver

import (
	"errors"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"
)

// process exists on Linux only: nothing else ends a child with its parent.
type process struct {
	paused atomic.Bool
	exited chan struct{}
}

var errLinuxOnly = errors.New("testserver: servers can be started on Linux only")

func startProcess(*exec.Cmd) (*process, error) { return nil, errLinuxOnly }

func (*process) ended() bool                              { return true }
func (*process) children() []child                        { return nil }
func (*process) stop(syscall.Signal, time.Duration) error { return errLinuxOnly }
func (*process) kill() error                              { return errLinuxOnly }
func (*process) pause() error                             { return errLinuxOnly }
func (*process) resume() error                            { return errLinuxOnly }

// child is a child of a process.
type child struct {
	pid   int
	state rune
}

func (child) ended() bool   { return true }
func (child) stopped() bool { return false }

func killPID(int) error { return errLinuxOnly }

func asNobody(*exec.Cmd) {}

func giveAway(string) error { return errLinuxOnly }

func mountDisk(string, int64) (unmount func() error, err error) { return nil, errLinuxOnly }

func removeSharedMemory(string) error { return nil }
