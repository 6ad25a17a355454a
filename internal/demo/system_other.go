//go:build !linux

package demo

import (
	"errors"
	"os"
	"syscall"
)

// signals are of no use here, since no process is started.
var signals = struct{ freeze, thaw os.Signal }{os.Kill, os.Interrupt}

// childAttributes refuses: nothing but Linux ends a child with its parent.
func childAttributes() (*syscall.SysProcAttr, error) {
	return nil, errors.New("the demo runs on Linux only; try it in a container")
}

func windowSize(*os.File) (width, height int, ok bool) { return 0, 0, false }
