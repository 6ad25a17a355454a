package lifeline

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	Main()
	roles()
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil { // most of them wait most of the time
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// roleVariable makes the test binary a program that has sessions, or a lifeline.
const roleVariable = "LIFELINE_TEST"

// roles does not return in another process of a test.
func roles() {
	switch os.Getenv(roleVariable) {
	case "program":
		programMain()
	case "small lifeline":
		limit := syscall.Rlimit{Cur: 32, Max: 32}
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
		lifelineMain()
	case "lifeline":
		lifelineMain()
	}
}

// programMain is a program whose arguments are a place and the TTL. It does what it is told, and answers each line.
func programMain() {
	place, text := os.Args[1], os.Args[2]
	ttl, _ := time.ParseDuration(text)
	service := serviceAt(place, ttl)
	c, err := Open(place, "test://", ttl, func() (Service, error) { return service, nil }, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		fmt.Println("refused:", err)
		os.Exit(0)
	}
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		order, id, _ := strings.Cut(in.Text(), " ")
		switch order {
		case "add":
			c.Add(id, []byte("handover of "+id))
		case "many": // stores, with a session each
			many, _ := strconv.Atoi(id)
			for range many {
				c, err := Open(place, "test://", ttl, func() (Service, error) { return service, nil }, slog.New(slog.DiscardHandler))
				if err != nil {
					panic(err)
				}
				c.Add("1", []byte("handover of 1"))
			}
		case "cut":
			c.mu.Lock()
			if c.conn != nil {
				_ = c.conn.Close()
			}
			c.mu.Unlock()
		case "store": // opened and closed
			other, err := Open(place, "test://", ttl, func() (Service, error) { return service, nil }, slog.New(slog.DiscardHandler))
			if err != nil {
				panic(err)
			}
			other.Add("other", []byte("handover of other"))
			other.Drop("other")
			other.Close()
		case "drop":
			c.Drop(id)
		case "stray": // a mistake of the program
			_ = control(c.writing, syscall.Close)
		case "known": // whether the lifeline has answered
			c.mu.Lock()
			warned := c.sessions[id].warned
			c.mu.Unlock()
			fmt.Println(map[bool]int{false: 1}[warned])
			continue
		case "lifeline": // its pid
			own.mu.Lock()
			fmt.Println(own.pid)
			own.mu.Unlock()
			continue
		case "child": // a process that guards the program's work
			file, err := c.File()
			if err != nil {
				panic(err)
			}
			child := exec.Command("/bin/sleep", "1000")
			child.ExtraFiles = []*os.File{file}
			if err := child.Start(); err != nil {
				panic(err)
			}
			_ = file.Close()
			fmt.Println(child.Process.Pid)
			continue
		case "exec":
			panic(syscall.Exec("/bin/sleep", []string{"sleep", "1000"}, nil))
		case "panic":
			panic("the test says so")
		case "exit":
			os.Exit(3)
		case "close":
			c.Close()
		}
		fmt.Println("done")
	}
	os.Exit(0)
}

// lifelineMain is a lifeline at the path that is its argument. Its Enders say on stdout what they end.
func lifelineMain() {
	listener, err := Listen(os.Args[1], len(os.Args) > 2)
	if err != nil {
		fmt.Println("refused:", err)
		os.Exit(0)
	}
	Harden()
	NewServer(listener, func(uid uint32) bool { return len(os.Args) > 2 && strconv.Itoa(int(uid)) == os.Args[2] }, slog.New(slog.NewTextHandler(os.Stderr, nil))).Serve()
}

type printer struct{}

func (printer) End(_ context.Context, id string, _ []byte) error {
	fmt.Println("ended", id)
	return nil
}

func (printer) Close() error { return nil }

// A program starts its lifeline when it has a session, and another one when that has gone. Its lifelines end after it.
func TestSelf(t *testing.T) {
	t.Parallel()
	p := startProgram(t, Self, time.Second)
	require.Zero(t, p.asks(t, "lifeline"))
	p.does(t, "add 1")
	p.isKnown(t, "1") // it ignores signals by now
	first := p.asks(t, "lifeline")
	t.Cleanup(func() { _ = syscall.Kill(first, syscall.SIGKILL) })
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGTSTP} {
		require.NoError(t, syscall.Kill(first, s))
	}
	p.does(t, "add 2")
	require.Equal(t, first, p.asks(t, "lifeline"), "it ignores what a terminal or a supervisor sends")
	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	second := 0
	eventually(t, func() bool { second = p.asks(t, "lifeline"); return second != first && second != 0 }, "there is another lifeline")
	t.Cleanup(func() { _ = syscall.Kill(second, syscall.SIGKILL) })
	p.logs(t, "there is a lifeline again")
	p.kill()
	_, _ = p.Process.Wait()
	eventually(t, func() bool { rest := state(second); return rest == "" || strings.HasPrefix(rest, "Z") }, "the lifeline ends")
}

// The lifeline of a program holds nothing that the program has inherited, and keeps its memory to itself.
func TestSelfHoldsNothing(t *testing.T) {
	t.Parallel()
	reading, writing, err := os.Pipe()
	require.NoError(t, err)
	defer reading.Close()
	p := &process{Cmd: exec.Command("/proc/self/exe", Self, "1h"), log: &lines{}}
	p.Env = append(os.Environ(), roleVariable+"=program", "GORACE=atexit_sleep_ms=0")
	p.ExtraFiles = []*os.File{nil, nil, nil, writing} // descriptor 6, which the program passes on
	p.in, err = p.StdinPipe()
	require.NoError(t, err)
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	defer func() { p.kill(); _ = p.Wait() }()
	require.NoError(t, writing.Close())
	p.out = newReader(out)
	require.Equal(t, "ready", p.line(t))
	p.does(t, "add 1")
	p.isKnown(t, "1")
	line := p.asks(t, "lifeline")
	defer func() { _ = syscall.Kill(line, syscall.SIGKILL) }()
	stop(t, line)
	p.kill()
	_, err = reading.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "the lifeline does not have the pipe")
	require.NoError(t, syscall.Kill(line, syscall.SIGCONT))
}

// A lifeline starts after the program's file was replaced: it is the program that runs.
func TestSelfAfterTheFileHasGone(t *testing.T) {
	t.Parallel()
	own, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "program")
	syscall.ForkLock.RLock() // no child of another test holds the file while it is written: ETXTBSY
	err = os.WriteFile(path, own, 0o700)
	syscall.ForkLock.RUnlock()
	require.NoError(t, err)
	p := &process{Cmd: exec.Command(path, Self, "1h"), log: &lines{}}
	p.Env, p.Stderr = append(os.Environ(), roleVariable+"=program", "GORACE=atexit_sleep_ms=0"), p.log
	p.in, err = p.StdinPipe()
	require.NoError(t, err)
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	defer func() { p.kill(); _ = p.Wait() }()
	p.out = newReader(out)
	require.Equal(t, "ready", p.line(t))
	require.NoError(t, os.Remove(path))
	p.does(t, "add 1")
	p.isKnown(t, "1")
	require.NotZero(t, p.asks(t, "lifeline"))
	require.NotContains(t, p.log.String(), "there is no lifeline")
}

// Process 1 can't have a lifeline of its own: the kernel would kill both.
func TestSelfOfProcess1(t *testing.T) {
	t.Parallel()
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Getuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
	}
	if err := probe(attr); err != nil {
		t.Skipf("no PID namespace: %v", err)
	}
	p := startAs(t, "program", attr, Self, "1h")
	require.Contains(t, p.line(t), "process 1 of a container")
}

// A place is an absolute path or self, and self needs Main.
func TestCheck(t *testing.T) {
	require.ErrorContains(t, Check("relative"), "absolute path")
	require.NoError(t, Check("/run/lifeline"))
	require.NoError(t, Check(Self))
	mainCalled = false
	defer func() { mainCalled = true }()
	require.ErrorContains(t, Check(Self), "lifeline.Main")
	t.Setenv(ParentVariable, "@some")
	require.NoError(t, Check(Self), "the program was started by a lifeline")
}

// What a lifeline knows is in its memory alone: not in its arguments, variables and logs, and other processes of its
// user can't read its memory.
func TestSecrets(t *testing.T) {
	t.Parallel()
	p := startProgram(t, Self, lasting, "1") // the password is "secret"
	own := p.asks(t, "lifeline")
	dir := shortDir(t)
	line := startAs(t, "lifeline", nil, dir+"/socket")
	awaitSocket(t, dir+"/socket")
	other := startProgram(t, dir+"/socket", lasting, "1")
	for _, pid := range []int{own, line.Process.Pid} {
		for _, file := range []string{"cmdline", "environ"} {
			text, err := os.ReadFile("/proc/" + itoa(pid) + "/" + file)
			require.NoError(t, err)
			require.NotContains(t, string(text), "secret", file)
		}
	}
	other.kill()
	require.Equal(t, "ended 1", line.line(t))
	require.NotContains(t, line.log.String(), "secret")
	require.NotContains(t, p.log.String(), "secret")
	p.kill()
}

// The kernel gives the files in /proc of a process whose memory is hidden to root.
func TestMemoryIsHidden(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	dir := shortDir(t)
	line := startAs(t, "lifeline", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: noSuchUser, Gid: noSuchUser}}, dir+"/socket")
	awaitSocket(t, dir+"/socket")
	eventually(t, func() bool {
		info, err := os.Stat("/proc/" + itoa(line.Process.Pid) + "/mem")
		return err == nil && info.Sys().(*syscall.Stat_t).Uid == 0
	}, "its memory is root's")
	status, err := os.ReadFile("/proc/" + itoa(line.Process.Pid) + "/status")
	require.NoError(t, err)
	require.Contains(t, string(status), "Uid:\t65534\t")
}

// A lifeline does not wake up while nothing happens, and has little memory of its own.
func TestLifelineRests(t *testing.T) {
	t.Parallel()
	p := startProgram(t, Self, lasting, "1")
	line := p.asks(t, "lifeline")
	eventually(t, func() bool {
		before := switches(t, line)
		time.Sleep(1500 * time.Millisecond) // the runtime's own period is a second
		return switches(t, line) == before
	}, "its threads no longer wake up again and again")
	anonymous := 0
	_, rest, found := strings.Cut(readAll(t, "/proc/"+itoa(line)+"/status"), "RssAnon:")
	require.True(t, found)
	_, err := fmt.Sscan(rest, &anonymous)
	require.NoError(t, err)
	t.Log("anonymous memory: ", anonymous, " KiB")
	if !isRace() {
		require.LessOrEqual(t, anonymous, 5<<10)
	}
	p.kill()
}

// isRace reports whether the race detector is in this binary, which takes memory of its own.
func isRace() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// switches is how often threads of a process have had a processor.
func switches(t *testing.T, pid int) (sum string) {
	t.Helper()
	files, err := filepath.Glob("/proc/" + itoa(pid) + "/task/*/status")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		for line := range strings.Lines(readAll(t, file)) {
			if strings.Contains(line, "ctxt_switches") {
				sum += line
			}
		}
	}
	return sum
}
