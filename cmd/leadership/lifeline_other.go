//go:build !linux

package main

import "errors"

// Run refuses: the kernel has to tell of the death of a process.
func (c *lifelineCmd) Run(*app) error {
	return &failure{code: exitSoftware, err: errors.New("there are lifelines on Linux alone")}
}
