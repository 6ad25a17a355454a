package main

import "syscall"

// childAttributes make a child end when this process ends, and keep the terminal's Ctrl-C from it: this process gets
// the signal and ends the children.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
