//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// notifySignals returns the signals that are passed on, from now until this process ends: one that came after the command
// has ended would end this process, and the command's exit code would be lost. Those that are ignored, by nohup for example, stay
// ignored. Others have no effect any more: SIGPIPE, by which the runtime would end this process when the reader of stderr
// has gone, and those by which a terminal stops a job in the background. They have a handler, since children would inherit
// that they are ignored.
func notifySignals() <-chan os.Signal {
	ch, drain := make(chan os.Signal, 16), make(chan os.Signal, 1)
	for _, s := range append(terminalStops, syscall.SIGPIPE) {
		if !signal.Ignored(s) {
			signal.Notify(drain, s)
		}
	}
	for _, s := range []os.Signal{
		syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
	} {
		if !signal.Ignored(s) {
			signal.Notify(ch, s)
		}
	}
	return ch
}

// hasTerminal reports whether the process has a controlling terminal.
func hasTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err == nil {
		tty.Close()
	}
	return err == nil
}
