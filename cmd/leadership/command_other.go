//go:build !unix

package main

import "os/exec"

// ownGroup does nothing: when watch ends, it kills the command alone.
func ownGroup(*exec.Cmd) {}

// killGroup does nothing: the command alone is killed.
func killGroup(*exec.Cmd) {}
