package guard

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

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
	goleak.VerifyTestMain(m)
}
