// Package lifeline lets a program have a lifeline of its own: a second process that ends the program's sessions as soon
// as the program is dead, so that another candidate leads milliseconds after a crash, and not a TTL later.
// docs/lifeline.md says what a lifeline knows, and what it does not do.
package lifeline

import "github.com/go-leadership/leadership/internal/lifeline"

// Main does not return in a process that a store with the option lifeline=self has started as the lifeline of its
// program: the store executes the program again. Call Main first in the function main, before flags are parsed and
// files are opened. The init functions of the program run in the lifeline too. In every other process, and on other
// systems than Linux, Main returns at once.
//
// A program that is process 1 of a container can't have a lifeline of its own: the kernel kills the whole container
// with process 1. Start such a program by the command leadership lifeline, which is process 1 then.
func Main() { lifeline.Main() }
