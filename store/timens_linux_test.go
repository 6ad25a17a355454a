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

// readingVariable hands an instant's readings to a process in a time namespace.
const readingVariable = "LEADERSHIP_TEST_READING"

// TestSuspensionInATimeNamespace: a process reads an instant, and another one, for which the kernel's CLOCK_BOOTTIME is
// ahead by hours, reckons the time since then. That is what a process finds after a suspension. It needs the build tag
// timens, Linux 6.2 and CAP_SYS_ADMIN, and fails without them: `make long PART=suspended`.
func TestSuspensionInATimeNamespace(t *testing.T) {
	if reading := os.Getenv(readingVariable); reading != "" {
		inTimeNamespace(t, reading)
		return
	}
	for _, slept := range []time.Duration{0, time.Second, 20 * time.Hour, 400 * aDay} {
		t.Run(slept.String(), func(t *testing.T) {
			sent := Now()
			require.True(t, sent.known)
			mono, ok := readClock(clockMonotonic)
			require.True(t, ok)
			// The wall clock goes on in a suspension: seen from its end, it began that much earlier.
			reading := fmt.Sprint(int64(slept), sent.t.Add(-slept).UnixNano(), int64(mono), int64(sent.suspended))
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()[:len("TestSuspensionInATimeNamespace")]+"$", "-test.v")
			cmd.Env = append(os.Environ(), readingVariable+"="+reading)
			output, err := runSuspended(cmd, slept)
			require.NoError(t, err, "%s", output)
			require.Contains(t, string(output), "--- PASS: TestSuspensionInATimeNamespace")
		})
	}
}

// runSuspended runs a command with CLOCK_BOOTTIME ahead.
func runSuspended(cmd *exec.Cmd, ahead time.Duration) (output []byte, err error) {
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
		offsets := fmt.Sprintf("/proc/%d/timens_offsets", syscall.Gettid())
		if err = os.WriteFile(offsets, fmt.Appendf(nil, "boottime %d %d\n", ahead/time.Second, ahead%time.Second), 0); err != nil {
			return
		}
		output, err = cmd.CombinedOutput()
	}()
	<-done
	return output, err
}

// inTimeNamespace is the process for which the machine has been suspended since another one read the clocks.
func inTimeNamespace(t *testing.T, reading string) {
	var slept, before time.Duration
	var wall, mono int64
	_, err := fmt.Sscan(reading, &slept, &wall, &mono, &before)
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
	require.GreaterOrEqual(t, passed, slept)
	require.InDelta(t, slept, passed, soon)

	// A lease that lasts beyond the suspension goes on, for the rest of its time; one that does not is over.
	l := NewLease()
	require.True(t, l.Renew(sent, slept+10*time.Minute))
	require.InDelta(t, 10*time.Minute, l.Remaining(), soon)
	require.Positive(t, 10*time.Minute-l.Remaining())
	require.False(t, NewLease().Renew(sent, slept))

	// What is read from now on has the suspension behind it.
	require.InDelta(t, 0, Now().Since(time.Now()), soon)
}
