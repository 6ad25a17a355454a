//go:build !linux

package main

import "os"

// terminalStops is empty: a terminal may stop the program, which is --unguarded here.
var terminalStops []os.Signal

func writeInBackground() {}
