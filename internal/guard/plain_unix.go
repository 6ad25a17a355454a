//go:build unix

package guard

import (
	"os/exec"
	"syscall"
)

func setGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func signalGroup(cmd *exec.Cmd, s syscall.Signal) error { return syscall.Kill(-cmd.Process.Pid, s) }

func killGroup(cmd *exec.Cmd) { _ = signalGroup(cmd, syscall.SIGKILL) }

func terminate(cmd *exec.Cmd) {
	_ = signalGroup(cmd, syscall.SIGTERM)
	_ = signalGroup(cmd, syscall.SIGCONT)
}
