package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The program of a lifeline has the terminal only while the lifeline's job would have it, and gives it back.
func TestLifelineOnATerminal(t *testing.T) {
	t.Parallel()
	term := newTerminal(t)
	term.enter("clear; leadership lifeline -- sh -c 'read x; exit 7'; echo exit code $?")
	term.enter("")
	term.shows(`^exit code 7`)

	term.enter("clear; setsid -w leadership lifeline -- sh -c 'exit 8'; echo exit code $?")
	term.shows(`^exit code 8`)

	term.enter("clear; sh -c 'leadership lifeline -- /dev/null; read x; echo got $x'")
	term.enter("that")
	term.shows(`^got that`)

	term.enter("clear; sh -c 'leadership lifeline -- true; read x; echo got $x'")
	term.enter("it")
	term.shows(`^got it`)

	over := filepath.Join(t.TempDir(), "over")
	term.enter(`clear; leadership lifeline -- sh -c 'echo begun; until [ -e "$0" ]; do sleep 0.05; done' ` + over + " &")
	term.shows(`begun$`)
	term.enter("clear; touch " + over + "; wait %1; echo exit code $?")
	term.shows(`^exit code 0`)
}

// A program that was not stopped by its terminal stays stopped.
func TestLifelineLeavesAProgramStopped(t *testing.T) {
	cmd := exec.Command("leadership", "lifeline", "--", "sh", "-c", "echo $$; exec sleep 1000")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	isStopped := func() bool {
		stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return strings.Contains(string(stat), ") T ")
	}
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	require.Eventually(t, isStopped, time.Minute, time.Millisecond)
	require.Never(t, func() bool { return !isStopped() }, 100*time.Millisecond, time.Millisecond)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.Error(t, cmd.Wait())
	require.Equal(t, 128+int(syscall.SIGKILL), cmd.ProcessState.ExitCode())
}

// A lifeline does not wake up while nothing happens.
func TestLifelineCommandRests(t *testing.T) {
	cmd := exec.Command("leadership", "lifeline", "--listen="+storeDir(t)+".socket")
	errs, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(errs).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "listening")
	switches := func() (sum string) {
		files, err := filepath.Glob("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/task/*/status")
		require.NoError(t, err)
		for _, file := range files {
			status, err := os.ReadFile(file)
			require.NoError(t, err)
			_, counts, _ := strings.Cut(string(status), "voluntary_ctxt_switches")
			sum += counts
		}
		return sum
	}
	require.Eventually(t, func() bool {
		before := switches()
		time.Sleep(1500 * time.Millisecond) // the runtime's own period is a second
		return switches() == before
	}, 20*time.Second, time.Millisecond, "its threads wake up again and again")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Error(t, cmd.Wait())
}
