//go:build !unix

package main

import (
	"os"
	"os/signal"
)

// notifySignals returns the signals that are passed on, from now on.
func notifySignals() <-chan os.Signal {
	ch := make(chan os.Signal, 16)
	signal.Notify(ch, os.Interrupt)
	return ch
}

func hasTerminal() bool { return true }
