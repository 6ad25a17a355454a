//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// notifySignals returns the signals that are passed on, from now on. Those that are ignored, by nohup for example, stay
// ignored. A reader of stderr that has gone is no reason to end any more: the runtime would do so, by SIGPIPE.
func notifySignals() (signals <-chan os.Signal, stop func()) {
	ch, pipe := make(chan os.Signal, 16), make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	for _, s := range []os.Signal{
		syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
	} {
		if !signal.Ignored(s) {
			signal.Notify(ch, s)
		}
	}
	return ch, func() { signal.Stop(ch); signal.Stop(pipe) }
}

// hasTerminal reports whether the process has a controlling terminal.
func hasTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err == nil {
		tty.Close()
	}
	return err == nil
}
