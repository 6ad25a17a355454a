package main

import (
	"os"
	"syscall"
)

// onSignal passes a signal on to the command. If there is no command, a signal that asks for the end ends the candidacy,
// and onSignal returns why.
func (r *runner) onSignal(s os.Signal) error {
	number, ok := s.(syscall.Signal)
	if !ok {
		return nil
	}
	asks := number == syscall.SIGTERM || number == syscall.SIGINT
	r.mu.Lock()
	if r.starting {
		r.held = append(r.held, s)
		r.mu.Unlock()
		return nil
	}
	command, second := r.command, asks && r.asked != 0
	ends := asks || number == syscall.SIGQUIT || number == syscall.SIGHUP && r.terminal
	if r.asked == 0 && (asks || command == nil && ends) {
		r.asked = number
	}
	if command == nil && ends {
		r.leave(interrupted{r.asked})
	}
	r.mu.Unlock()
	switch {
	case command == nil && ends:
		return interrupted{number}
	case command == nil:
		r.log.Info("signal ignored: the command does not run", "signal", number)
	case second:
		r.log.Warn("the command is killed: this is the second signal that asks for its end", "signal", number)
		command.Kill()
	default:
		if err := command.Signal(number); err != nil {
			r.log.Debug("signal not passed on", "signal", number, "error", err)
		}
	}
	return nil
}

// started notes the command, or nil if it could not be started, and handles the signals that came meanwhile. missed says
// that there was no time to start it.
func (r *runner) started(command process, missed bool) {
	r.mu.Lock()
	held := r.held
	r.starting, r.held, r.command = false, nil, command
	r.led = r.led || !missed
	r.mu.Unlock()
	for _, s := range held {
		_ = r.onSignal(s)
	}
}
