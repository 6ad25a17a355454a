package lifeline

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A service that does not answer is asked again until the TTL has gone by.
func TestRetries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var tries atomic.Int64
	w.fails = func(string) error {
		if tries.Add(1) < 5 {
			return errAway
		}
		return nil
	}
	p := startProgram(t, w.path, lasting, "1")
	p.kill()
	w.ends("1")
	require.EqualValues(t, 5, tries.Load())

	tries.Store(-1 << 30)
	p = startProgram(t, w.path, time.Second, "2")
	p.kill()
	w.eventually(func() bool { return w.members() == 0 }, "it is forgotten")
	require.Less(t, tries.Load()+1<<30, int64(time.Second/tryPause+2))
}

// A lifeline that is asked to end tries once more.
func TestCloseTriesOnceMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var tries atomic.Int64
	w.fails = func(string) error { tries.Add(1); return errAway }
	p := startProgram(t, w.path, lasting, "1")
	lives := startProgram(t, w.path, lasting, "2")
	p.kill()
	w.eventually(func() bool { return tries.Load() > 2 }, "it is tried")
	w.mu.Lock()
	w.fails = nil
	w.mu.Unlock()
	w.stop()
	w.ends("1")
	require.Empty(t, w.ended, "the program that lives is left alone")
	w.serve()
	lives.kill()
}

// A program of another user is served only if that user is allowed.
func TestUsers(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	other := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: noSuchUser, Gid: noSuchUser}}
	for _, allowed := range []string{"12345", "65534"} {
		dir := shortDir(t)
		line := startAs(t, "lifeline", nil, dir+"/socket", allowed)
		eventually(t, func() bool {
			conn, err := net.Dial("unix", dir+"/socket") // the file is there before the lifeline listens
			if err == nil {
				_ = conn.Close()
			}
			return err == nil
		}, "the lifeline listens")
		info, err := os.Stat(dir + "/socket")
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o666), info.Mode().Perm(), "all users may use the socket")
		p := startAs(t, "program", other, dir+"/socket", "1h")
		require.Equal(t, "ready", p.line(t))
		p.does(t, "add 1")
		if allowed == "65534" {
			p.kill()
			require.Equal(t, "ended 1", line.line(t))
			continue
		}
		line.logs(t, "programs of this user are refused")
		p.logs(t, "there is no lifeline")
	}
}

// Whatever a client sends, other programs are served, and nothing of it is left.
func TestGarbage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := startProgram(t, w.path, lasting, "1")
	pidfd, err := openPidfd()
	require.NoError(t, err)
	defer pidfd.Close()
	reading, writing, err := os.Pipe()
	require.NoError(t, err)
	defer reading.Close()
	defer writing.Close()
	frame := func(body string) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	}
	random := make([]byte, 1<<16)
	_, _ = rand.Read(random)
	rights := func(files ...*os.File) []byte {
		var fds []int
		for _, f := range files {
			fds = append(fds, int(f.Fd()))
		}
		return syscall.UnixRights(fds...)
	}
	for name, send := range map[string]func(conn *net.UnixConn){
		"nothing":        func(*net.UnixConn) {},
		"no descriptors": func(c *net.UnixConn) { _, _ = c.Write(random) },
		"one":            func(c *net.UnixConn) { _, _, _ = c.WriteMsgUnix([]byte{1}, rights(pidfd), nil) },
		"three":          func(c *net.UnixConn) { _, _, _ = c.WriteMsgUnix([]byte{1}, rights(pidfd, reading, reading), nil) },
		"random":         func(c *net.UnixConn) { _ = sendFiles(c, pidfd, reading); _, _ = c.Write(random) },
		"a length": func(c *net.UnixConn) {
			_ = sendFiles(c, pidfd, reading)
			_, _ = c.Write([]byte{0xff, 0xff, 0xff, 0xff})
		},
		"half a frame":       func(c *net.UnixConn) { _ = sendFiles(c, pidfd, reading); _, _ = c.Write([]byte{0, 0, 1, 0, '{'}) },
		"an empty frame":     func(c *net.UnixConn) { _ = sendFiles(c, pidfd, reading); _, _ = c.Write(frame("{}")) },
		"no JSON":            func(c *net.UnixConn) { _ = sendFiles(c, pidfd, reading); _, _ = c.Write(frame("{")) },
		"an unknown service": func(c *net.UnixConn) { _ = sendFiles(c, pidfd, reading); _, _ = c.Write(frame(`{"Add":{"ID":"x"}}`)) },
	} {
		t.Run(name, func(t *testing.T) {
			for range 100 {
				dialled, err := net.Dial("unix", w.path)
				require.NoError(t, err)
				conn := dialled.(*net.UnixConn)
				send(conn)
				_ = conn.Close()
			}
			p.does(t, "add again")
			p.isKnown(t, "again")
			p.does(t, "drop again")
		})
	}
	p.kill()
	w.ends("1")
	w.rests()
	_, _ = writing.Write([]byte("a byte in the pipe means nothing"))
	w.eventually(func() bool { return w.members() == 0 }, "nothing is left of clients that have gone")
}

// A program that opens and closes stores leaves nothing behind, and one that has lost its connection is known once.
func TestNothingGrows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := startProgram(t, w.path, time.Second, "1")
	for range 4 {
		p.does(t, "cut") // the connection to the lifeline
		p.does(t, "drop 2")
		p.does(t, "add 2")
		p.isKnown(t, "2") // on the next connection
	}
	w.eventually(func() bool { return w.members() == 1 }, "one store")
	p.does(t, "store")
	w.eventually(func() bool { return w.members() == 1 }, "the other was closed")
	p.kill()
	require.ElementsMatch(t, []string{"1", "2"}, []string{w.next(), w.next()})
}

// A program has no more sessions than it can need, and the lifeline no more programs.
func TestLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := startProgram(t, w.path, lasting)
	for i := range mostSessions {
		p.does(t, fmt.Sprint("add ", i))
	}
	require.NotContains(t, p.log.String(), "too many sessions")
	p.does(t, "add more")
	p.logs(t, "too many sessions")
}

// Many programs are served by a few goroutines each, and all their sessions are ended.
func TestManyPrograms(t *testing.T) {
	w := newWorld(t)
	const many = 1000
	before := runtime.NumGoroutine()
	p := startAs(t, "program", nil, w.path, "1h")
	require.Equal(t, "ready", p.line(t))
	p.does(t, fmt.Sprint("many ", many))
	w.eventually(func() bool { return w.sessions() == many }, "all are known")
	require.LessOrEqual(t, runtime.NumGoroutine()-before, 2*many+10)
	p.kill()
	for range many {
		w.next()
	}
	w.eventually(func() bool { return w.members() == 0 }, "nothing is left")
}

// A lifeline that has no descriptors left serves those that it has, and others later. The others go on without.
func TestNoDescriptorsLeft(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	line := startAs(t, "small lifeline", nil, dir+"/socket")
	awaitSocket(t, dir+"/socket")
	all := make([]*process, 14)
	for i := range all {
		all[i] = startProgram(t, dir+"/socket", 2*time.Second)
		all[i].does(t, "add 1")
	}
	var served, late []*process
	eventually(t, func() bool {
		served, late = nil, nil
		for _, p := range all {
			if p.asks(t, "known 1") == 1 {
				served = append(served, p)
			} else {
				late = append(late, p)
			}
		}
		return len(served) > 0
	}, "some are served")
	require.NotEmpty(t, late, "there are descriptors for fewer")
	for _, p := range served {
		p.kill()
		require.Equal(t, "ended 1", line.line(t))
	}
	late[0].logs(t, `"the lifeline has answered"`)
	late[0].kill()
	require.Equal(t, "ended 1", line.line(t))
}
