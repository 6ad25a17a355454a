//go:build !unix

package guard

import (
	"os/exec"
	"syscall"
)

func setGroup(*exec.Cmd) {}

func signalGroup(cmd *exec.Cmd, s syscall.Signal) error { return cmd.Process.Signal(s) }

func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

// terminate kills: this system has no TERM.
func terminate(cmd *exec.Cmd) { killGroup(cmd) }
