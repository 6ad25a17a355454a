package lifeline

import (
	"log/slog"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A program can let reads of its pipe block. It delays neither the lifeline's end nor the end of the wait.
func TestPipeThatBlocks(t *testing.T) {
	t.Parallel()
	reading, writing, err := os.Pipe()
	require.NoError(t, err)
	defer reading.Close()
	defer writing.Close()
	received, err := duplicate(reading, "pipe")
	require.NoError(t, err)
	defer received.Close()
	require.NoError(t, control(reading, func(fd int) error { return syscall.SetNonblock(fd, false) }))
	m := &member{
		server: NewServer(nil, nil, slog.New(slog.DiscardHandler)), pipe: received,
		sessions: map[string]session{"1": {ttl: 50 * time.Millisecond}},
	}
	waited := make(chan error, 1)
	go func() { waited <- m.awaitPipe(time.Now()) }()
	select {
	case err := <-waited:
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	case <-time.After(watchdog):
		_ = writing.Close()
		<-waited
		require.Fail(t, "the wait does not end")
	}
}

// What the program said last counts, though the lifeline learns of the death at the same time.
func TestLastWords(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	line := startAs(t, "lifeline", nil, dir+"/socket")
	awaitSocket(t, dir+"/socket")
	for range 10 {
		p := startProgram(t, dir+"/socket", lasting, "1")
		p.does(t, "drop 1")
		stop(t, line.Process.Pid)
		p.does(t, "add 2")
		p.kill()
		_, _ = p.Process.Wait()
		require.NoError(t, line.Process.Signal(syscall.SIGCONT))
		said := make(chan string, 1)
		go func() { text, _ := line.out.ReadString('\n'); said <- text }()
		require.Equal(t, "ended 2\n", receive(t, said, "the end of the session"))
	}
}

// A sidecar and a program in PID namespaces of their own, as in a pod, neither of which can see the other.
func TestSidecar(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("a PID namespace takes root: in a user namespace, the two would not be of one user")
	}
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if err := probe(attr); err != nil {
		t.Skipf("no PID namespace: %v", err)
	}
	dir := shortDir(t)
	line := startAs(t, "lifeline", attr, dir+"/socket")
	awaitSocket(t, dir+"/socket")
	p := startAs(t, "program", attr, dir+"/socket", lasting.String())
	require.Equal(t, "ready", p.line(t))
	p.does(t, "add 1")
	p.isKnown(t, "1")
	p.kill()
	require.Equal(t, "ended 1", line.line(t))
}

// However a program dies, its sessions are ended, once.
func TestDeath(t *testing.T) {
	t.Parallel()
	for name, die := range map[string]func(p *process){
		"SIGKILL": func(p *process) { p.kill() },
		"SIGSEGV": func(p *process) { _ = p.Process.Signal(syscall.SIGSEGV) },
		"panic":   func(p *process) { p.says(t, "panic") },
		"os.Exit": func(p *process) { p.says(t, "exit") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := startProgram(t, w.path, lasting, "1", "2", "3")
			p.does(t, "drop 2")
			die(p)
			ended := map[string]bool{w.next(): true, w.next(): true}
			require.Equal(t, map[string]bool{"1": true, "3": true}, ended)
			w.eventually(func() bool { return w.members() == 0 }, "nothing is left of the program")
			w.rests()
		})
	}
}

// The end of the pipe is not enough: a live program might have closed the descriptor by mistake. Its death counts
// later.
func TestStrayClose(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := startProgram(t, w.path, lasting, "1")
	p.does(t, "stray")
	w.rests()
	p.does(t, "add 2")
	w.rests()
	p.kill()
	ended := map[string]bool{w.next(): true, w.next(): true}
	require.Equal(t, map[string]bool{"1": true, "2": true}, ended)
}

// The pidfd is not enough: a process that guards the program's work has the pipe.
func TestGuardedWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := startProgram(t, w.path, lasting, "1")
	child := p.asks(t, "child")
	t.Cleanup(func() { _ = syscall.Kill(child, syscall.SIGKILL) })
	p.kill()
	_, _ = p.Process.Wait()
	w.rests()
	require.NoError(t, syscall.Kill(child, syscall.SIGSTOP))
	w.rests()
	require.NoError(t, syscall.Kill(child, syscall.SIGKILL))
	killed := time.Now()
	w.ends("1")
	require.GreaterOrEqual(t, time.Since(killed), windDown, "what the child has started might end after it")
}

// A pipe that nobody closes is waited for no longer than the service keeps the session.
func TestPipeIsNotWaitedForForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := startProgram(t, w.path, time.Second, "1")
	child := p.asks(t, "child")
	t.Cleanup(func() { _ = syscall.Kill(child, syscall.SIGKILL) })
	p.kill()
	w.eventually(func() bool { return w.members() == 0 }, "the program is forgotten")
	require.Empty(t, w.ended)
}

// A program that executes another one closes the pipe, and is not dead.
func TestExecve(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := startProgram(t, w.path, lasting, "1")
	p.says(t, "exec")
	w.eventually(func() bool {
		name, err := os.Readlink("/proc/" + itoa(p.Process.Pid) + "/exe")
		return err == nil && name != "" && !isTest(name)
	}, "another program runs")
	w.rests()
	p.kill()
	w.ends("1")
}

// The next lifeline learns of all sessions, and of the same pipe: work that is guarded keeps the session still.
func TestLifelineRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := startProgram(t, w.path, 5*time.Second, "1", "2")
	child := p.asks(t, "child")
	t.Cleanup(func() { _ = syscall.Kill(child, syscall.SIGKILL) })
	w.stop()
	w.serve()
	w.eventually(func() bool { return w.sessions() == 2 }, "the sessions are told again")
	p.does(t, "drop 2")
	w.eventually(func() bool { return w.sessions() == 1 }, "one is dropped")
	p.kill()
	_, _ = p.Process.Wait()
	w.rests()
	require.NoError(t, syscall.Kill(child, syscall.SIGKILL))
	w.ends("1")
}

// The death that counts is that of the process that has made the connection, whatever pidfd it sends.
func TestPidfdOfAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := startAs(t, "program", nil, w.path, "1h")
	fd, err := unix.PidfdOpen(other.Process.Pid, 0)
	require.NoError(t, err)
	pidfd, err := newFile(fd, "pidfd")
	require.NoError(t, err)
	defer pidfd.Close()
	other.kill()
	require.NoError(t, awaitExit(pidfd))

	reading, writing, err := os.Pipe()
	require.NoError(t, err)
	defer reading.Close()
	require.NoError(t, writing.Close(), "the pipe has ended, too")
	dialled, err := net.Dial("unix", w.path)
	require.NoError(t, err)
	defer dialled.Close()
	conn := dialled.(*net.UnixConn)
	if kernel, err := peerPidfd(conn); err != nil {
		t.Skip("this kernel does not say which process has made a connection: ", err)
	} else {
		require.NoError(t, kernel.Close())
	}
	require.NoError(t, sendFiles(conn, pidfd, reading))
	_ = writeFrame(conn, frame{Add: &entry{"1", []byte("handover of 1"), serviceAt(w.path, time.Hour)}})
	w.rests()
	w.eventually(func() bool { return w.members() == 1 }, "the session of a program that lives")
}
