package guard

import (
	"flag"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// partVariable makes the test binary another program, such as a supervisor that a test kills.
const partVariable = "LEADERSHIP_TEST_PART"

var parts = map[string]func(){}

func TestMain(m *testing.M) {
	if os.Getenv("LEADERSHIP_TEST_DIE") != "" {
		beforeStart = func() {
			if os.Getenv("LEADERSHIP_TEST_DIE") == "both" {
				_ = unix.Kill(os.Getppid(), unix.SIGKILL)
			}
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		}
		if os.Args[0] == initName { // as if the guardian had died before PR_SET_PDEATHSIG
			_ = unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0)
			_, _ = unix.Poll([]unix.PollFd{{Fd: linkFD}}, -1)
		}
	}
	if os.Getenv("LEADERSHIP_TEST_FAIL") != "" {
		failSlowly()
	}
	if name, at, ok := strings.Cut(os.Getenv("LEADERSHIP_TEST_SLOW"), " "); ok && os.Args[0] == name {
		until, err := strconv.ParseInt(at, 10, 64)
		must(err)
		time.Sleep(instant(until).sub(now()))
	}
	if os.Getenv("LEADERSHIP_TEST_NO_TIMER") != "" {
		setKillTimer = func(killTimer, instant) error { return nil } // as on a kernel whose timer never fires
	}
	Main()
	if play := parts[os.Getenv(partVariable)]; play != nil {
		play()
		os.Exit(0)
	}
	// A process with the race detector sleeps for a second when it exits; the processes of the trials need not.
	if err := os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil { // the parallel tests wait most of the time
		panic(err)
	}
	for _, s := range []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT} {
		if signal.Ignored(s) { // as under nohup, or in the background of a shell; the commands of the tests need them
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	goleak.VerifyTestMain(m)
}

// apartVariable is the name of the test that this process was started for.
const apartVariable = "LEADERSHIP_TEST_APART"

// apart runs a test that waits in a process of its own, beside others: a process has one command at a time.
func apart(t *testing.T, test func(t *testing.T)) {
	if os.Getenv(apartVariable) == t.Name() {
		test(t)
		return
	}
	t.Parallel()
	name := "^" + strings.ReplaceAll(regexp.QuoteMeta(t.Name()), "/", "$/^") + "$"
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.v", "-test.count=1", "-test.run="+name)
	cmd.Env = append(os.Environ(), apartVariable+"="+t.Name())
	cmd.WaitDelay = 10 * time.Second // processes that a failed test has left have the pipe
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "--- PASS: "+t.Name()+" ", "the test is not run")
}
