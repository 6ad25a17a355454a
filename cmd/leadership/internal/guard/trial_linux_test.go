package guard

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The times of the trials have wide margins for a busy machine. TERM is sent after 5.8 s, KILL after 6 s, the supervisor
// kills a silent guardian after 7.3 s, and the kernel kills it after 9 s.
const (
	trialLease  = 10 * time.Second
	trialMargin = 4 * time.Second
	trialTimer  = time.Second
	trialStop   = 200 * time.Millisecond

	trialPatience = (trialMargin - trialTimer) / 3 // of the supervisor with a silent guardian
)

// trial is a supervisor with a command that ignores TERM, has a child, a daemon, and a process that forks without end.
// They are the writers of pipes, so the end of a pipe tells that the last of them is dead.
type trial struct {
	variant  variant
	lease    time.Duration
	began    instant
	meter    *stall.Meter // since then
	cmd      *exec.Cmd    // the supervisor
	stdin    *os.File     // a byte: no more renewals; another: one, late
	lines    chan string
	command  *pipe // written by the command
	rest     *pipe // written by the command and its descendants
	polite   *pipe // written by a descendant that TERM ends
	guardian int
	tree     []int   // all processes
	groups   []int   // process groups of all but the supervisor
	deadline instant // the end of the last lease
}

// pipe is the reading end of a pipe. It is read for its end, which is that of its last writer.
type pipe struct {
	file *os.File
	gone chan struct{} // closed when the last writer is dead
	at   instant       // when gone was closed
}

func newPipe(t *testing.T) (*pipe, *os.File) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	p := &pipe{file: r, gone: make(chan struct{})}
	go func() {
		defer close(p.gone)
		_, _ = r.Read(make([]byte, 1))
		p.at = now()
	}()
	return p, w
}

// await waits until the last writer is dead.
func (p *pipe) await(t *testing.T, writer string) {
	select {
	case <-p.gone:
	case <-time.After(2 * time.Minute):
		require.FailNow(t, writer+" does not end")
	}
}

// endsBy waits until the last writer is dead, and fails if it is not at the deadline. A stall of this process is no
// excuse for a writer that is seen alive. It reports false if this process has looked too late to see which came first.
func (p *pipe) endsBy(t *testing.T, writer string, deadline instant) (seen bool) {
	for !closed(p.gone) && now() < deadline {
		select {
		case <-p.gone:
		case <-time.After(deadline.sub(now())):
		}
	}
	require.True(t, p.over(t), writer+" outlived the lease")
	p.await(t, writer)
	return p.at <= deadline
}

// over reports whether the last writer is dead at this very moment.
func (p *pipe) over(t *testing.T) (over bool) {
	conn, err := p.file.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, conn.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		_, _ = unix.Poll(poll, 0)
		over = poll[0].Revents&unix.POLLHUP != 0
	}))
	return over
}

// script ignores TERM, except in the process that has descriptor 6. Only the command has descriptor 3; all processes
// have 4. Three processes write a byte to 5 when they run.
const script = `
sleep 1000 3>&- 4>&- 5>&- &
exec 6>&-
trap '' TERM
sh -c 'echo >&5; exec sleep 1000 5>&-' 3>&- &
setsid sh -c '(echo >&5; exec sleep 1000 5>&-) &' 3>&-
sh -c 'echo >&5; exec sh -c "$FORKS" "$FORKS" 5>&-' 3>&- &
exec sleep 1000 5>&-
`

// forks starts itself again and exits, after some seconds.
const forks = `sleep %g; sh -c "$0" "$0" & exit`

// starting limits how many supervisors start at once: each must be ready before its first lease ends.
var starting = make(chan struct{}, 2)

// startTrial reports ok if the command and its descendants run.
func startTrial(t *testing.T, v variant, forkAfter, lease time.Duration) (tr *trial, ok bool) {
	starting <- struct{}{}
	defer func() { <-starting }()
	tr = &trial{variant: v, lease: lease, meter: stall.Watch(t), cmd: v.command(t, "supervisor"), lines: make(chan string, 100)}
	var command, rest, polite *os.File
	tr.command, command = newPipe(t)
	tr.rest, rest = newPipe(t)
	tr.polite, polite = newPipe(t)
	isReady, ready, err := os.Pipe()
	require.NoError(t, err)
	data, err := json.Marshal(v.mode)
	require.NoError(t, err)
	tr.cmd.Env = append(tr.cmd.Env, "LEADERSHIP_TEST_MODE="+string(data), "LEADERSHIP_TEST_LEASE="+lease.String(), "FORKS="+fmt.Sprintf(forks, forkAfter.Seconds()))
	tr.cmd.ExtraFiles = []*os.File{command, rest, ready, polite}
	stdin, w, err := os.Pipe()
	require.NoError(t, err)
	r, stdout, err := os.Pipe()
	require.NoError(t, err)
	tr.cmd.Stdin, tr.cmd.Stdout, tr.cmd.Stderr, tr.stdin = stdin, stdout, os.Stderr, w
	tr.began = now()
	require.NoError(t, tr.cmd.Start())
	for _, f := range []*os.File{command, rest, ready, polite, stdin, stdout} {
		require.NoError(t, f.Close())
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(tr.lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			tr.lines <- s.Text()
		}
	})
	t.Cleanup(func() {
		tr.killAll()
		<-tr.command.gone
		<-tr.rest.gone
		<-tr.polite.gone
		reading.Wait()
		for _, f := range []*os.File{w, r, tr.command.file, tr.rest.file, tr.polite.file, isReady} {
			_ = f.Close()
		}
	})
	if _, running := tr.line(t, "running"); !running {
		return tr, false
	}
	if _, err = io.ReadFull(isReady, make([]byte, 3)); err != nil {
		return tr, false
	}
	tr.tree = family(tr.cmd.Process.Pid)
	if len(tr.tree) < 2 {
		return tr, false
	}
	tr.guardian = tr.tree[1]
	for _, pid := range tr.tree[1:] {
		if group, err := unix.Getpgid(pid); err == nil && group != unix.Getpgrp() {
			tr.groups = append(tr.groups, group)
		}
	}
	return tr, true
}

// line returns the rest of the next line that begins with a word, or false if the supervisor ends before it says that.
func (tr *trial) line(t *testing.T, word string) (rest string, ok bool) {
	for {
		select {
		case line, ok := <-tr.lines:
			if !ok {
				return "", false
			}
			if rest, ok := strings.CutPrefix(line, word+" "); ok {
				return rest, true
			}
		case <-time.After(2 * time.Minute):
			require.FailNow(t, "the supervisor did not say: "+word)
		}
	}
}

// starved reports whether TERM was due without a renewal, and only because this process, which stands for all of the
// trial, stood still.
func (tr *trial) starved() bool {
	took, due := now().sub(tr.began), tr.lease-trialMargin-trialStop
	return took >= due && took-tr.meter.Stalled() < due
}

// hold ends the renewals, and reports whether the command runs until then.
func (tr *trial) hold(t *testing.T) bool {
	tr.write(t)
	held, ok := tr.line(t, "held")
	if !ok {
		return false
	}
	nanoseconds, err := strconv.ParseInt(held, 10, 64)
	require.NoError(t, err)
	tr.deadline = instant(nanoseconds)
	return !tr.command.over(t) && now() < tr.deadline.add(-trialMargin-trialStop)
}

func (tr *trial) write(t *testing.T) {
	_, err := tr.stdin.Write([]byte{0})
	require.NoError(t, err)
}

// family returns the ids of a process and its descendants.
func family(pid int) []int {
	all := []int{pid}
	children, _ := childrenOf(strconv.Itoa(pid))
	for _, child := range children {
		all = append(all, family(child)...)
	}
	return all
}

// killAll ends what is left of a trial. A process that forks without end keeps its group. This process has adopted what
// is left and does not reap it, so its ids are still its own.
func (tr *trial) killAll() {
	_ = tr.cmd.Process.Kill()
	_ = tr.cmd.Wait()
	for !closed(tr.command.gone) || !closed(tr.rest.gone) || !closed(tr.polite.gone) {
		for _, group := range tr.groups {
			_ = unix.Kill(-group, unix.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func init() { parts["supervisor"] = playSupervisor }

// playSupervisor renews the lease until it reads a byte, or the command has ended.
func playSupervisor() {
	prepare()
	var m Mode
	must(json.Unmarshal([]byte(os.Getenv("LEADERSHIP_TEST_MODE")), &m))
	lease, err := time.ParseDuration(cmp.Or(os.Getenv("LEADERSHIP_TEST_LEASE"), trialLease.String()))
	must(err)
	c := Config{Command: []string{"sh", "-c", script}, Files: []*os.File{os.NewFile(3, ""), os.NewFile(4, ""), os.NewFile(5, ""), os.NewFile(6, "")}}
	path, err := c.path()
	must(err)
	v, err := launch(settings{
		Mode: m.Kind, User: m.UserNamespace, Path: []byte(path), Margin: trialMargin, TimerMargin: trialTimer, StopTimeout: trialStop,
	}, c, now().add(lease), trialPatience)
	must(err)
	for _, f := range c.Files {
		must(f.Close())
	}
	must(v.running(nil))
	fmt.Println("running .")
	fmt.Println("held", int64(v.renewUntilRead(os.Stdin, lease)))
	go func() {
		if n, _ := os.Stdin.Read(make([]byte, 1)); n > 0 {
			_ = v.renew(lasts(long))
		}
	}()
	fmt.Println("waited", v.wait().Cause)
}

// renewUntilRead renews the lease until a byte is read, and returns when the last one ends.
func (v *supervisor) renewUntilRead(f *os.File, lease time.Duration) (deadline instant) {
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = f.Read(make([]byte, 1))
	}()
	for {
		_ = v.renew(lasts(lease))
		deadline = now().add(lease)
		select {
		case <-read:
			return deadline
		case <-v.done:
			return deadline
		case <-time.After(100 * time.Millisecond):
		}
	}
}
