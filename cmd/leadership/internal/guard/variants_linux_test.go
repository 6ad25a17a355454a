package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const nobody = 65534

// variant is a mode, a user, and what the user is denied.
type variant struct {
	name   string
	mode   Mode
	uid    int
	denied bool // namespaces, by a seccomp filter
	pid1   bool // the supervisor is PID 1, as in a container
}

// variants are those that this machine might have: as root, those of an ordinary user, too.
func variants() []variant {
	user := os.Getuid()
	v := []variant{}
	if user == 0 {
		user = nobody
		v = append(v,
			variant{name: "root in a namespace", mode: namespaceMode(false)},
			variant{name: "process 1 in a namespace", mode: namespaceMode(false), pid1: true},
			variant{name: "process 1 with a subreaper", mode: subreaperMode(), pid1: true},
		)
	}
	return append(v,
		variant{name: "user in a namespace", mode: namespaceMode(true), uid: user},
		variant{name: "user with a subreaper", mode: subreaperMode(), uid: user},
	)
}

// available returns the variants that this machine has. The others are subtests that are skipped, with the reason.
func available(t *testing.T) (have []variant) {
	if os.Getuid() != 0 {
		t.Run("as root", func(t *testing.T) { t.Skip("these tests do not run as root") })
	}
	for _, v := range variants() {
		if reason := v.selfTest(t, v.mode).Error; reason != "" {
			t.Run(v.name, func(t *testing.T) { skipWhatIsDenied(t, reason) })
			continue
		}
		have = append(have, v)
	}
	if len(have) == 0 { // root that may not become another user
		have = append(have, variant{name: "this user with a subreaper", mode: subreaperMode(), uid: os.Getuid()})
	}
	return have
}

// skipWhatIsDenied skips a mode that the machine denies. Another reason for a self-test to fail is a bug, and fails.
func skipWhatIsDenied(t *testing.T, reason string) {
	if strings.Contains(reason, "start "+initName) || strings.Contains(reason, notPermitted) {
		t.Skipf("this machine denies it: %s", reason)
	}
	require.Fail(t, reason)
}

// notPermitted reports whether the test binary may not be started as another user, or as PID 1.
const notPermitted = "this process may not start it"

// command runs the test binary with a part, as the variant's user. Its path is /proc/self/exe, since the user might not
// be able to read the binary's directory.
func (v variant) command(t *testing.T, part string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), append(env, partVariable+"="+part, "LEADERSHIP_TEST_DENIED="+strconv.FormatBool(v.denied))...)
	if v.uid != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(v.uid), Gid: uint32(v.uid)}}
	}
	if v.pid1 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	}
	return cmd
}

// tested is the result of a self-test.
type tested struct {
	Mode  Mode
	Error string
}

// selfTest tries a mode, or all of them for the zero Mode.
func (v variant) selfTest(t *testing.T, m Mode) (result tested) {
	data, err := json.Marshal(m)
	require.NoError(t, err)
	cmd := v.command(t, "self-test", "LEADERSHIP_TEST_MODE="+string(data))
	output, err := cmd.Output()
	if errors.Is(err, unix.EPERM) {
		return tested{Error: notPermitted + ": " + err.Error()}
	}
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(output, &result), "%s", output)
	return result
}

func init() { parts["self-test"] = playSelfTest }

func playSelfTest() {
	prepare()
	var m Mode
	must(json.Unmarshal([]byte(os.Getenv("LEADERSHIP_TEST_MODE")), &m))
	var err error
	if m.Kind == "" {
		m, err = SelfTest(context.Background())
	} else {
		_, err = selfTest(context.Background(), m)
	}
	result := tested{Mode: m}
	if err != nil {
		result.Error = err.Error()
	}
	must(json.NewEncoder(os.Stdout).Encode(result))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// prepare gives this process the user and the limits of its variant.
func prepare() {
	if os.Getpid() == 1 {
		must(unix.Mount("", "/proc", "", unix.MS_PRIVATE, ""))
		must(unix.Mount("proc", "/proc", "proc", 0, ""))
	}
	if os.Getenv("LEADERSHIP_TEST_DENIED") == "true" {
		deny()
	}
}

// deny installs a seccomp filter under which clone and unshare make no namespaces. clone3 is missing under it, as
// in many containers, since a filter can't read its arguments.
func deny() {
	const load, equal, set, answer = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS
	filter := []unix.SockFilter{
		{Code: load, K: 0}, // the call's number
		{Code: equal, K: unix.SYS_CLONE3, Jt: 5},
		{Code: equal, K: unix.SYS_CLONE, Jt: 1},
		{Code: equal, K: unix.SYS_UNSHARE, Jf: 2},
		{Code: load, K: 16}, // the first argument's lower half
		{Code: set, K: namespaces, Jt: 2},
		{Code: answer, K: unix.SECCOMP_RET_ALLOW},
		{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
	}
	runtime.LockOSThread() // the filter and its permission belong to a thread, until it is synchronized
	must(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		must(errno)
	}
}
