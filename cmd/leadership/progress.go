package main

import (
	"fmt"
	"time"
)

// progress shows on a terminal what the program is doing, if that takes longer than a second. The function that it
// returns ends this and erases the line.
func (a *app) progress(doing string) (end func()) {
	if !a.errsStyle.terminal {
		return func() {}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	began := time.Now()
	go func() {
		defer close(stopped)
		ticks := time.NewTicker(time.Second)
		defer ticks.Stop()
		for shown := false; ; shown = true {
			select {
			case <-ticks.C:
				fmt.Fprintf(a.errs, "\r%s ... %.0f s\x1b[K", doing, time.Since(began).Seconds())
			case <-stop:
				if shown {
					fmt.Fprint(a.errs, "\r\x1b[K")
				}
				return
			}
		}
	}()
	return func() { close(stop); <-stopped }
}
