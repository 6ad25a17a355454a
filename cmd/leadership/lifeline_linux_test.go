package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// run adds a lifeline of its own to the URL of a store that can have one, unless the URL names one.
func TestOwnLifeline(t *testing.T) {
	for url, want := range map[string]string{
		"etcd://h:1":                        "etcd://h:1?lifeline=self",
		"etcd+tls://h:1/p?ttl=9s":           "etcd+tls://h:1/p?ttl=9s&lifeline=self",
		"zookeeper://h:1/":                  "zookeeper://h:1/?lifeline=self",
		"consul://h:1/":                     "consul://h:1/?lifeline=self",
		"consul://h:1/?lifeline=/run/other": "consul://h:1/?lifeline=/run/other",
		"postgres://a@h:1/b?ttl=2s":         "postgres://a@h:1/b?ttl=2s",
		"postgres+tls://a@h:1/b":            "postgres+tls://a@h:1/b",
		"file:///dev/shm/x?ttl=2s":          "file:///dev/shm/x?ttl=2s",
		"not a URL":                         "not a URL",
	} {
		with, why := ownLifeline(url)
		require.NoError(t, why)
		require.Equal(t, want, with)
	}
}

// As process 1 of a container run has none, and says how to have one.
func TestNoLifelineOfProcess1(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestOwnLifelineOfProcess1$", "-test.v")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
	}
	cmd.Env = append(os.Environ(), "LEADERSHIP_TEST_PROCESS_1=1")
	output, err := cmd.CombinedOutput()
	if cmd.Process == nil {
		t.Skipf("no PID namespace: %v", err)
	}
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "start it by leadership lifeline -- PROGRAM")
}

// TestOwnLifelineOfProcess1 is what that process runs.
func TestOwnLifelineOfProcess1(t *testing.T) {
	if os.Getenv("LEADERSHIP_TEST_PROCESS_1") == "" {
		t.Skip("TestNoLifelineOfProcess1 runs it in a PID namespace")
	}
	url, why := ownLifeline("etcd://h:1")
	require.Equal(t, "etcd://h:1", url)
	t.Log(why)
}

// On a kernel without pidfds, or where a container's filter denies them, run has no lifeline, and runs.
func TestNoLifelineWithoutPidfd(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestOwnLifelineWithoutPidfd$", "-test.v")
	cmd.Env = append(os.Environ(), "LEADERSHIP_TEST_NO_PIDFD=1")
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "this kernel gives no pidfd")
}

// TestOwnLifelineWithoutPidfd is what that process runs.
func TestOwnLifelineWithoutPidfd(t *testing.T) {
	if os.Getenv("LEADERSHIP_TEST_NO_PIDFD") == "" {
		t.Skip("TestNoLifelineWithoutPidfd runs it")
	}
	denyPidfd(t)
	url, why := ownLifeline("etcd://h:1")
	require.Equal(t, "etcd://h:1", url)
	require.Error(t, why)
	t.Log(why)
}

// denyPidfd installs a seccomp filter for this process, under which pidfd_open fails.
func denyPidfd(t *testing.T) {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PIDFD_OPEN, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread() // the permission belongs to a thread
	defer runtime.UnlockOSThread()
	require.NoError(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	require.Zero(t, errno)
}

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
	t.Parallel()
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
	storetest.Eventually(t, isStopped, "the program is stopped")
	require.Never(t, func() bool { return !isStopped() }, 100*time.Millisecond, time.Millisecond)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.Error(t, cmd.Wait())
	require.Equal(t, 128+int(syscall.SIGKILL), cmd.ProcessState.ExitCode())
}

// A lifeline does not wake up while nothing happens.
func TestLifelineCommandRests(t *testing.T) {
	t.Parallel()
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
	storetest.Eventually(t, func() bool {
		before := switches()
		time.Sleep(1500 * time.Millisecond) // the runtime's own period is a second
		return switches() == before
	}, "its threads rest")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
}
