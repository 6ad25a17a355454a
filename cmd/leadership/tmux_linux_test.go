package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/whole"
	"github.com/stretchr/testify/require"
)

// terminal is a terminal of tmux, whose screen a test reads.
type terminal struct {
	t      *testing.T
	socket string
}

// newTerminal starts a shell in a terminal of its own.
func newTerminal(t *testing.T, environment ...string) terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is not installed: make setup installs it")
	}
	term := terminal{t, filepath.Join(t.TempDir(), "tmux")}
	args := []string{"-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "40"}
	for _, variable := range append(environment, "TERM=screen", "NO_COLOR=") {
		args = append(args, "-e", variable)
	}
	term.tmux(append(args, "sh")...)
	t.Cleanup(func() { term.tmux("kill-server") })
	term.shows(`^[#$]`) // what is typed before the prompt would be shown twice
	return term
}

func (term terminal) tmux(args ...string) string {
	term.t.Helper()
	output, err := exec.Command("tmux", append([]string{"-u", "-S", term.socket}, args...)...).CombinedOutput()
	require.NoError(term.t, err, "tmux %q: %s", args, output)
	return string(output)
}

// enter types a line.
func (term terminal) enter(line string) {
	term.t.Helper()
	term.tmux("send-keys", "-l", line)
	term.tmux("send-keys", "Enter")
}

// shows waits until the screen, with its colours, has a match.
func (term terminal) shows(pattern string) {
	term.t.Helper()
	match := regexp.MustCompile("(?m)" + pattern)
	var screen string
	for began := time.Now(); time.Since(began) < storetest.Watchdog; time.Sleep(50*time.Millisecond + time.Since(began)/8) {
		if screen = term.tmux("capture-pane", "-e", "-p"); match.MatchString(screen) {
			return
		}
	}
	require.Fail(term.t, "the terminal does not show it", "no match for %q on\n%s", pattern, strings.TrimSpace(screen))
}

// startCandidate starts a candidate, which ends with the test.
func startCandidate(t *testing.T, environment []string, value string) {
	t.Helper()
	cmd := exec.Command("candidate", value)
	cmd.Env = append(os.Environ(), environment...)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// On a terminal, watch and stepdown show colours, questions, and how long something takes.
func TestTerminal(t *testing.T) {
	t.Parallel()
	environment := []string{"LEADERSHIP_STORE=file://" + storeDir(t) + "?ttl=30s", "LEADERSHIP_ELECTION=job"}
	watching, term := newTerminal(t, environment...), newTerminal(t, environment...)
	watching.enter("leadership watch; echo exit code $?")
	watching.shows(`\d\d:\d\d:\d\d\.\d\d\d  \x1b\[33mno leader`)
	startCandidate(t, environment, "a")
	watching.shows(`leader  \x1b\[32ma\b`)
	startCandidate(t, environment, "b")
	term.enter("until leadership ballots | grep waits; do sleep 0.1; done")
	term.shows(`^2 +\d+ +waits +b`)

	term.enter("clear; leadership stepdown; echo exit code $?")
	term.shows(`Go on\? \[y/N\]`)
	term.enter("n")
	term.shows(`^leadership: nothing was done\nexit code 1`)
	term.enter("clear; leadership stepdown; echo exit code $?")
	term.shows(`Go on\? \[y/N\]`)
	term.enter("y")
	term.shows(`\x1b\[32mb\x1b\[39m leads with token \d+`)
	term.shows("exit code 0")
	watching.shows(`leader  \x1b\[32mb\b`)
	term.enter("clear; leadership ballots")
	term.shows(`1 +\d+ +\x1b\[32mleads\x1b\[39m +b`)

	term.enter("clear; leadership leader --store=etcd://127.0.0.1:1 --timeout=1m")
	term.shows(`^asking etcd://127\.0\.0\.1:1/ \.\.\. \d+ s`)
	term.tmux("send-keys", "C-c")
	term.enter("echo exit code $?")
	term.shows(`exit code 130`)
	watching.tmux("send-keys", "C-c")
	watching.shows(`exit code 130`)
}

// The demo redraws its screen in place, and ends with its verdict.
func TestDemoOnATerminal(t *testing.T) {
	whole.Need(t)
	t.Parallel()
	term := newTerminal(t)
	term.enter("clear; leadership demo --store='file://" + storeDir(t) + "?ttl=10s' --slack=1m --pace=200ms; echo exit code $?")
	term.shows(`leadership demo, \d+\.\d s, on file:///`)
	term.shows(`leader    [abc] since`)
	term.shows(`^as promised: one leader at a time`)
	term.shows(`exit code 0`)
}
