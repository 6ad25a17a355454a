//go:build timens

package store

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// readingVariable hands an instant's readings, and the results to expect, to a process in a time namespace.
const readingVariable = "LEADERSHIP_TEST_READING"

// TestSuspensionInATimeNamespace: a process reads an instant. Another one, whose CLOCK_BOOTTIME is hours ahead,
// computes the time since then, as a process does after a suspension. The tests in this file need the build tag timens,
// Linux 6.2 and CAP_SYS_ADMIN, and fail without them: `make long PART=suspended`.
func TestSuspensionInATimeNamespace(t *testing.T) {
	for _, slept := range []time.Duration{0, time.Second, 20 * time.Hour, 400 * aDay} {
		t.Run(slept.String(), func(t *testing.T) {
			// The wall clock goes on during a suspension, so that much more of its time has passed at the end.
			sinceInNamespace(t, -slept, 0, slept, slept)
		})
	}
}

// TestPausedMachineIsNotCounted shows a limit that docs/guarantees.md states. While a virtual machine is paused all
// clocks of the kernel stand still; the wall clock might have been set since. Nothing reports the pause.
func TestPausedMachineIsNotCounted(t *testing.T) {
	const pause = 2 * time.Second // less than the machine has been up
	t.Run("wall clock set", func(t *testing.T) { sinceInNamespace(t, -pause, -pause, -pause, 0) })
	t.Run("wall clock left", func(t *testing.T) { sinceInNamespace(t, 0, -pause, -pause, 0) })
}

// sinceInNamespace starts a process whose clocks are ahead by the given times, the wall clock since the instant, and
// checks how much time it computes.
func sinceInNamespace(t *testing.T, wall, monotonic, boottime, want time.Duration) {
	sent := Now()
	require.True(t, sent.known)
	mono, ok := readClock(clockMonotonic)
	require.True(t, ok)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestInTimeNamespace$", "-test.v")
	cmd.Env = append(os.Environ(), readingVariable+"="+fmt.Sprint(
		sent.t.Add(wall).UnixNano(), int64(mono+monotonic), int64(sent.suspended), int64(boottime-monotonic), int64(want)))
	output, err := runInNamespace(cmd, monotonic, boottime)
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "--- PASS: TestInTimeNamespace")
}

// runInNamespace runs a command whose clocks are ahead of ours.
func runInNamespace(cmd *exec.Cmd, monotonic, boottime time.Duration) (output []byte, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The namespace is for what this thread starts. The thread ends with this goroutine, since it stays locked.
		runtime.LockOSThread()
		const cloneNewTime = 0x80 // from linux/sched.h
		if err = syscall.Unshare(cloneNewTime); err != nil {
			err = fmt.Errorf("no time namespace to be had, which needs CAP_SYS_ADMIN: %w", os.NewSyscallError("unshare", err))
			return
		}
		path := fmt.Sprintf("/proc/%d/timens_offsets", syscall.Gettid())
		offsets := fmt.Sprintf("monotonic %d 0\nboottime %d 0\n", monotonic/time.Second, boottime/time.Second)
		if err = os.WriteFile(path, []byte(offsets), 0); err != nil {
			return
		}
		output, err = cmd.CombinedOutput()
	}()
	<-done
	return output, err
}

// TestInTimeNamespace is the process in the namespace. It has nothing to do in the process that runs the tests.
func TestInTimeNamespace(t *testing.T) {
	reading := os.Getenv(readingVariable)
	if reading == "" {
		return
	}
	var wall, mono int64
	var before, slept, want time.Duration
	_, err := fmt.Sscan(reading, &wall, &mono, (*int64)(&before), (*int64)(&slept), (*int64)(&want))
	require.NoError(t, err)
	now := time.Now()
	monoNow, ok := readClock(clockMonotonic)
	require.True(t, ok)
	sent := Instant{shifted(t, now, time.Duration(wall-now.UnixNano()), time.Duration(mono)-monoNow), before, true}

	const exact, soon = float64(100 * time.Millisecond), float64(time.Minute) // soon: until this process had started
	after, ok := suspended()
	require.True(t, ok)
	require.InDelta(t, before+slept, after, exact)
	passed := sent.Since(time.Now())
	require.GreaterOrEqual(t, passed, want)
	require.InDelta(t, want, passed, soon)

	// A lease that lasts beyond the suspension goes on, for the rest of its time; one that does not is over.
	l := NewLease()
	require.True(t, l.Renew(sent, want+10*time.Minute))
	require.InDelta(t, 10*time.Minute, l.Remaining(), soon)
	require.Positive(t, 10*time.Minute-l.Remaining())
	require.False(t, NewLease().Renew(sent, want))

	// What is read from now on has the suspension behind it.
	require.InDelta(t, 0, Now().Since(time.Now()), soon)
}
