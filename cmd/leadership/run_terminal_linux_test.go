package main

import (
	"path/filepath"
	"testing"
)

// A terminal does not stop the program, which would end its renewals: not when it writes its log while the command has
// the terminal, and not when another process of its job reads or writes in the background.
func TestRunOnATerminal(t *testing.T) {
	t.Parallel()
	term := newTerminal(t, "LEADERSHIP_STORE=file://"+storeDir(t)+"?ttl=30s", "LEADERSHIP_ELECTION=job")
	term.enter("clear; stty tostop; leadership run -- sh -c 'read x; exit 7'; echo exit code $?")
	term.shows(`msg="command started"`)
	term.enter("")
	term.shows(`^exit code 7`)

	over := filepath.Join(t.TempDir(), "over")
	term.enter(`clear; stty -tostop; leadership run -- sh -c 'echo begun; until [ -e "$0" ]; do sleep 0.05; done' ` + over + " &")
	term.shows(`^begun`)
	term.enter("clear; kill -TTIN %1; kill -TTOU %1; touch " + over + "; wait %1; echo exit code $?")
	term.shows(`^exit code 0`)
}
