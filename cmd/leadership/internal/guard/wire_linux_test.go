package guard

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestLastWordsAreHeard checks that what one end has sent arrives, although it closes the link with a message unread: a
// guardian that exits need not have read the last renewal.
func TestLastWordsAreHeard(t *testing.T) {
	ours, theirs, err := newLinks()
	require.NoError(t, err)
	defer ours.file.Close()
	require.NoError(t, theirs.send(report{Failed: "not found"}))
	require.NoError(t, theirs.send(report{Exited: true}))
	require.NoError(t, ours.send(request{Deadline: now().add(time.Minute)}))
	require.NoError(t, theirs.file.Close())

	reports := make(chan report)
	go receive(ours, reports)
	require.Equal(t, report{Failed: "not found"}, <-reports)
	require.Equal(t, report{Exited: true}, <-reports)
	_, open := <-reports
	require.False(t, open)
}

// TestStopIsNotLost checks that Stop reaches the command although the guardian has no room for a message when it is
// called.
func TestStopIsNotLost(t *testing.T) {
	eachGuardedMode(t, func(t *testing.T, m Mode) {
		p, r := startShell(t, m, `trap 'exit 3' TERM; echo >&3; while :; do sleep 0.01; done`)
		readLine(t, r)
		v := p.r.(*supervisor)
		guardian := v.guardian
		require.NoError(t, unix.Kill(guardian, unix.SIGSTOP))
		for p.Signal(syscall.SIGWINCH) == nil {
			continue
		}
		p.Stop(10 * time.Second)
		require.NoError(t, unix.Kill(guardian, unix.SIGCONT))
		require.Equal(t, Result{Code: 3, Cause: Stopped}, p.Wait())
	})
}

// TestStopForTheInitIsNotLost checks the same between the guardian and the init.
func TestStopForTheInitIsNotLost(t *testing.T) {
	ours, theirs, err := newLinks()
	require.NoError(t, err)
	defer ours.file.Close()
	defer theirs.file.Close()
	n := &namespace{pid: os.Getpid(), requests: outbox{link: ours}}
	for ours.send(request{Signal: syscall.SIGWINCH}) == nil {
		continue
	}
	n.stop()
	for {
		r, ok := receiveOne[request](theirs)
		require.True(t, ok)
		if r.Stop {
			break
		}
		n.unsent()
	}
	require.False(t, n.unsent())
}

// TestOutbox checks that what finds no room is sent later, in order.
func TestOutbox(t *testing.T) {
	ours, theirs, err := newLinks()
	require.NoError(t, err)
	defer ours.file.Close()
	defer theirs.file.Close()
	box, sent := outbox{link: ours}, 0
	for len(box.left) < 3 {
		sent++
		box.send(request{Probe: sent, Path: []byte(strings.Repeat("x", 4096))})
	}
	for want := 1; want <= sent; want++ {
		r, ok := receiveOne[request](theirs)
		require.True(t, ok)
		require.Equal(t, want, r.Probe)
		box.flush()
	}
	require.False(t, box.flush())
}
