//go:build !unix

package main

import "os/exec"

// ownGroup does nothing: when watch ends, it kills the command alone.
func ownGroup(*exec.Cmd) {}

// endGroup does nothing.
func endGroup(*exec.Cmd) {}

// killGroup does nothing: the command alone is killed.
func killGroup(*exec.Cmd) {}
