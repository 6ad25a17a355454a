package main

import "syscall"

// childAttributes make a child end when we end, in whatever way, and keep the terminal's Ctrl-C from it: that is for
// us, who end the children then.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
