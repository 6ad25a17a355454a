package lifeline

import (
	"bufio"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestCases is the table of cases in docs/guarantees.md. A program in C speaks the protocol, and then makes the
// kernel's life hard. No session is ended before the last code of the program is gone, or of what shares its memory
// or files, or holds the pipe. Then the session is ended.
func TestCases(t *testing.T) {
	t.Parallel()
	compiler, err := exec.Command("go", "env", "CC").Output()
	require.NoError(t, err)
	cc := strings.Fields(string(compiler))
	if _, err := exec.LookPath(cc[0]); err != nil {
		t.Skip("there is no C compiler: scripts/setup compiler installs one")
	}
	path := filepath.Join(t.TempDir(), "cases")
	output, err := exec.Command(cc[0], append(cc[1:], "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", path, "testdata/cases.c")...).CombinedOutput()
	require.NoError(t, err, "%s", output)
	for name, run := range map[string]func(*playground){
		"threads":                   (*playground).threads,
		"the main thread has ended": (*playground).mainThreadEnded,
		"vfork":                     outlived("vfork"),
		"fork":                      outlived("fork"),
		"CLONE_VM":                  outlived("CLONE_VM"),
		"CLONE_FILES":               outlived("CLONE_FILES"),
		"in flight":                 (*playground).inFlight,
		"execve":                    executed("execve"),
		"execve in a thread":        executed("execve in a thread"),
		"io_uring":                  (*playground).ring,
		"io_uring in a child":       outlived("io_uring in a child"),
		"FUSE":                      (*playground).fuse,
		"freezer of cgroup v1":      (*playground).freezer1,
		"freezer of cgroup v2":      (*playground).freezer2,
		"ptrace":                    (*playground).ptrace,
		"a PID namespace":           (*playground).namespace,
		"CLONE_VM without the pipe": hole("CLONE_VM without the pipe"),
		"fork without the pipe":     hole("fork without the pipe"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(newPlayground(t, path))
		})
	}
}

// playground is a lifeline and the program in C.
type playground struct {
	*world
	program  string
	counters []uint64     // advance while code of the program runs
	memory   *os.File     // of the counters
	atEnd    atomic.Int64 // their sum when the session was ended
}

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

// sum grows while code of the program runs.
func (pg *playground) sum() (n int64) {
	for i := range pg.counters {
		n += int64(atomic.LoadUint64(&pg.counters[i]))
	}
	return n
}

// start starts the program in a case, and returns what it says. Extra is its descriptor 4, or nil.
func (pg *playground) start(name string, extra *os.File) (p *process, says string) {
	pg.Helper()
	p = &process{Cmd: exec.Command(pg.program, pg.path, name), log: &lines{}}
	p.ExtraFiles = []*os.File{pg.memory, extra}
	var err error
	p.in, err = p.StdinPipe()
	require.NoError(pg, err)
	out, err := p.StdoutPipe()
	require.NoError(pg, err)
	p.out = bufio.NewReader(out)
	require.NoError(pg, p.Start())
	pg.Cleanup(func() { p.kill(); _ = p.Wait() })
	says = p.line(pg.T)
	require.NotContains(pg, says, "failed")
	if strings.HasPrefix(says, "denied") {
		pg.Skip("io_uring is ", says)
	}
	return p, says
}

// dies kills the program, and waits until it is dead.
func (pg *playground) dies(p *process) {
	p.kill()
	_, _ = p.Process.Wait()
}

// runs waits until code of the program has run.
func (pg *playground) runs() {
	pg.Helper()
	before := pg.sum()
	pg.eventually(func() bool { return pg.sum() > before }, "no counter moves")
}

// stillFromTheEndOn makes sure that no counter has moved since the session was ended.
func (pg *playground) stillFromTheEndOn() {
	pg.Helper()
	time.Sleep(2 * time.Millisecond) // for what might run still
	require.Equal(pg, pg.atEnd.Load(), pg.sum(), "code of the program has run after the session was ended")
}

// Threads that spin are all gone when the session is ended.
func (pg *playground) threads() {
	for range *rounds {
		p, _ := pg.start("threads", nil)
		pg.runs()
		p.kill()
		pg.ends("1")
		pg.stillFromTheEndOn()
		_ = p.Wait()
	}
}

// A main thread that has ended is a zombie. The process lives.
func (pg *playground) mainThreadEnded() {
	p, _ := pg.start("the main thread has ended", nil)
	pg.eventually(func() bool { return strings.HasPrefix(state(p.Process.Pid), "Z") }, "the main thread ends")
	pg.rests()
	pg.runs()
	p.kill()
	pg.ends("1")
	pg.stillFromTheEndOn()
}

// The init of a PID namespace has the pipe. When it is killed, the kernel closes its files first, and kills the rest
// of the namespace then: a child without the pipe may run on for a moment, up to milliseconds on a busy machine.
func (pg *playground) namespace() {
	if os.Getuid() != 0 {
		pg.Skip("a PID namespace takes root")
	}
	p, says := pg.start("a PID namespace", nil)
	var init int
	_, err := fmt.Sscanf(says, "init %d", &init)
	require.NoError(pg, err, says)
	pg.Cleanup(func() { _ = syscall.Kill(init, syscall.SIGKILL) })
	pg.dies(p)
	pg.rests()
	pg.runs()
	require.NoError(pg, syscall.Kill(init, syscall.SIGKILL))
	pg.ends("1")
	pg.eventually(func() bool {
		before := pg.sum()
		time.Sleep(5 * time.Millisecond)
		return pg.sum() == before
	}, "the namespace ends")
}

// A copy of the pipe that is in the queue of a socket counts until it is dropped.
func (pg *playground) inFlight() {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(pg, err)
	here, there := os.NewFile(uintptr(pair[0]), "here"), os.NewFile(uintptr(pair[1]), "there")
	defer here.Close()
	p, _ := pg.start("in flight", there)
	require.NoError(pg, there.Close())
	pg.dies(p)
	pg.rests()
	require.NoError(pg, here.Close())
	pg.ends("1")
}

// The kernel has the pipe for a ring, and a read for it pending.
func (pg *playground) ring() {
	p, _ := pg.start("io_uring", nil)
	pg.rests()
	p.kill()
	pg.ends("1")
	pg.stillFromTheEndOn()
}

// A frozen cgroup of version 1 keeps a process that was killed until it is thawed.
func (pg *playground) freezer1() {
	dir, p := pg.inGroup("freezer")
	require.NoError(pg, os.WriteFile(dir+"/freezer.state", []byte("FROZEN"), 0))
	defer func() { _ = os.WriteFile(dir+"/freezer.state", []byte("THAWED"), 0) }()
	pg.eventually(func() bool {
		state, err := os.ReadFile(dir + "/freezer.state")
		return err == nil && string(state) == "FROZEN\n"
	}, "it freezes")
	p.kill()
	pg.rests()
	require.NoError(pg, os.WriteFile(dir+"/freezer.state", []byte("THAWED"), 0))
	pg.ends("1")
	pg.stillFromTheEndOn()
}

// In a frozen cgroup of version 2 a process that is killed dies at once.
func (pg *playground) freezer2() {
	dir, p := pg.inGroup("")
	require.NoError(pg, os.WriteFile(dir+"/cgroup.freeze", []byte("1"), 0))
	defer func() { _ = os.WriteFile(dir+"/cgroup.freeze", []byte("0"), 0) }()
	pg.eventually(func() bool {
		events, err := os.ReadFile(dir + "/cgroup.events")
		return err == nil && strings.Contains(string(events), "frozen 1")
	}, "it freezes")
	pg.rests()
	p.kill()
	pg.ends("1")
	pg.stillFromTheEndOn()
}

// inGroup starts the program, and puts it into a cgroup of its own: of a controller of version 1, or of version 2.
func (pg *playground) inGroup(controller string) (dir string, p *process) {
	pg.Helper()
	for line := range strings.Lines(readAll(pg.T, "/proc/self/mountinfo")) {
		before, after, _ := strings.Cut(line, " - ")
		kind := strings.Fields(after)
		if controller == "" && kind[0] == "cgroup2" || kind[0] == "cgroup" && strings.HasSuffix(kind[len(kind)-1], ","+controller) {
			dir = strings.Fields(before)[4]
			break
		}
	}
	if dir == "" {
		pg.Skip("there is no such cgroup: ", controller)
	}
	dir = fmt.Sprintf("%s/lifeline-%d", dir, os.Getpid())
	if err := os.Mkdir(dir, 0o755); err != nil {
		pg.Skip("no cgroup can be made: ", err)
	}
	pg.Cleanup(func() {
		pg.eventually(func() bool { return os.Remove(dir) == nil }, "the cgroup is removed")
	})
	p, _ = pg.start("threads", nil)
	require.NoError(pg, os.WriteFile(dir+"/cgroup.procs", []byte(itoa(p.Process.Pid)), 0))
	return dir, p
}

func newPlayground(t *testing.T, program string) *playground {
	t.Helper()
	fd, err := unix.MemfdCreate("counters", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	memory := os.NewFile(uintptr(fd), "counters")
	t.Cleanup(func() { _ = memory.Close() })
	require.NoError(t, memory.Truncate(4096))
	mapped, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Munmap(mapped) }) // after the end of the lifeline
	pg := &playground{
		world: newWorld(t), program: program, memory: memory,
		counters: unsafe.Slice((*uint64)(unsafe.Pointer(&mapped[0])), 16),
	}
	pg.mu.Lock()
	defer pg.mu.Unlock()
	pg.fails = func(string) error { pg.atEnd.Store(pg.sum()); return nil }
	return pg
}

// What the file system of the test understands, see fuse(4).
const (
	fuseLookup    = 1
	fuseInit      = 26
	fuseInHeader  = 40
	fuseOutHeader = 16
)

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

var rounds = flag.Int("rounds", 20, "how often a program whose threads spin is killed in TestCases")

// outlived is a case in which a child has the pipe, and outlives the program.
func outlived(name string) func(*playground) {
	return func(pg *playground) {
		p, says := pg.start(name, nil)
		var child int
		_, err := fmt.Sscanf(says, "child %d", &child)
		require.NoError(pg, err, says)
		pg.Cleanup(func() { _ = syscall.Kill(child, syscall.SIGKILL) })
		pg.rests()
		pg.dies(p)
		pg.rests()
		pg.runs()
		require.NoError(pg, syscall.Kill(child, syscall.SIGKILL))
		pg.ends("1")
		pg.stillFromTheEndOn()
	}
}

// hole is a case that the rule does not cover: a child has closed its copy of the pipe. It is told, and code runs.
func hole(name string) func(*playground) {
	return func(pg *playground) {
		p, says := pg.start(name, nil)
		var child int
		_, err := fmt.Sscanf(says, "child %d", &child)
		require.NoError(pg, err, says)
		pg.Cleanup(func() { _ = syscall.Kill(child, syscall.SIGKILL) })
		pg.rests()
		pg.dies(p)
		pg.ends("1")
		pg.runs()
	}
}

// executed is a case in which another program takes the place of the program. The pipe has ended, and the process
// lives.
func executed(name string) func(*playground) {
	return func(pg *playground) {
		p, _ := pg.start(name, nil)
		pg.rests()
		pg.runs()
		p.kill()
		pg.ends("1")
		pg.stillFromTheEndOn()
	}
}

func readAll(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}
