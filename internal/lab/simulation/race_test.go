//go:build race

package simulation_test

// The race detector makes a schedule cost ten times as much: it is there for 40 of them, and without it there are 200.
func init() { manySeeds.last = 19 }
