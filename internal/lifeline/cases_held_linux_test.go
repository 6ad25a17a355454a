package lifeline

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// What the file system of the test understands, see fuse(4).
const (
	fuseLookup    = 1
	fuseInit      = 26
	fuseInHeader  = 40
	fuseOutHeader = 16
)

// A thread that waits for a file system does not die before the file system answers, though it was killed.
func (pg *playground) fuse() {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		pg.Skip("no file system in user space: ", err)
	}
	dir := shortDir(pg.T)
	if err := unix.Mount("lifeline", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)); err != nil {
		_ = unix.Close(fd)
		pg.Skip("no file system in user space: ", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	device := os.NewFile(uintptr(fd), "fuse") // not before it is mounted: it would not wait without a thread
	lookups := make(chan uint64, 1)
	served := make(chan struct{})
	defer func() { _ = device.Close(); <-served }() // whatever waits for the file system goes on
	go func() { defer close(served); serveFuse(device, lookups) }()
	p, _ := pg.start("look up "+dir+"/file", nil)
	lookup := <-lookups
	p.kill()
	pg.rests()
	require.NoError(pg, answerFuse(device, lookup, -int32(unix.ENOENT), nil))
	pg.ends("1")
	pg.stillFromTheEndOn()
	require.Zero(pg, pg.sum(), "the thread has not returned to the program")
}

// serveFuse serves a file system until the device is closed. Lookups are not answered: their numbers are sent.
func serveFuse(device *os.File, lookups chan<- uint64) {
	request := make([]byte, 1<<17)
	for {
		n, err := device.Read(request)
		if err != nil {
			return
		}
		number := binary.NativeEndian.Uint64(request[8:])
		switch binary.NativeEndian.Uint32(request[4:]) {
		case fuseInit:
			answer := make([]byte, 64)
			copy(answer, request[fuseInHeader:min(n, fuseInHeader+8)]) // the version
			binary.NativeEndian.PutUint32(answer[20:], 1<<12)          // the longest write
			_ = answerFuse(device, number, 0, answer)
		case fuseLookup:
			lookups <- number
		}
	}
}

func answerFuse(device *os.File, number uint64, failed int32, answer []byte) error {
	out := binary.NativeEndian.AppendUint32(nil, uint32(fuseOutHeader+len(answer)))
	out = binary.NativeEndian.AppendUint32(out, uint32(failed))
	out = binary.NativeEndian.AppendUint64(out, number)
	_, err := device.Write(append(out, answer...))
	return err
}

// A process that a debugger stops on its way out is not dead: its files and its memory are there.
func (pg *playground) ptrace() {
	runtime.LockOSThread() // the thread is the debugger
	defer runtime.UnlockOSThread()
	p, _ := pg.start("spin until told", nil)
	pid := p.Process.Pid
	const traceExit = unix.PTRACE_O_TRACEEXIT
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, traceExit, 0, 0); errno != 0 {
		pg.Skip("no process can be traced: ", errno)
	}
	p.says(pg.T, "")
	var status unix.WaitStatus
	_, err := unix.Wait4(pid, &status, unix.WALL, nil)
	require.NoError(pg, err)
	require.True(pg, status.Stopped() && status.TrapCause() == unix.PTRACE_EVENT_EXIT, status)
	pg.rests()
	require.NoError(pg, unix.PtraceCont(pid, 0))
	pg.ends("1")
	pg.stillFromTheEndOn()
}
