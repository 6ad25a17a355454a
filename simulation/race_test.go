//go:build race

package simulation_test

// The race detector makes a schedule cost ten times as much, and finds in 40 what it would find in 200.
func init() { manySeeds.last = 19 }
