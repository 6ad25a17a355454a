//go:build !linux

package main

import "syscall"

// childAttributes has nothing to offer here. The demo does not get as far, since no server can be started either.
func childAttributes() *syscall.SysProcAttr { return nil }
