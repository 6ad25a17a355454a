//go:build unix

package guard

import (
	"os/exec"
	"syscall"
)

func setGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// signalGroup sends a signal to the command's process group. If the signal is SIGTERM or SIGINT, SIGCONT follows: a
// stopped process would not end otherwise.
func signalGroup(cmd *exec.Cmd, s syscall.Signal) error {
	err := syscall.Kill(-cmd.Process.Pid, s)
	if s == syscall.SIGTERM || s == syscall.SIGINT {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGCONT)
	}
	return err
}

func killGroup(cmd *exec.Cmd) { _ = signalGroup(cmd, syscall.SIGKILL) }

func terminate(cmd *exec.Cmd) { _ = signalGroup(cmd, syscall.SIGTERM) }
