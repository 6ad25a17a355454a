// Package simulation has no code of its own. Its test runs random schedules of candidates, followers and faults in virtual
// time, and checks at every step what package leadership promises.
package simulation
