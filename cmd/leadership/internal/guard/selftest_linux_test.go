package guard

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestSelfTest checks that each user gets the best mode of the machine, and is told what it does not cover.
func TestSelfTest(t *testing.T) {
	user := os.Getuid()
	if user == 0 {
		user = nobody
	}
	for _, v := range []variant{
		{name: "this user", uid: os.Getuid()},
		{name: "user", uid: user},
		{name: "user without namespaces", uid: user, denied: true},
		{name: "this user without namespaces", uid: os.Getuid(), denied: true},
	} {
		t.Run(v.name, func(t *testing.T) {
			result := v.selfTest(t, Mode{})
			if result.Error != "" {
				skipWhatIsDenied(t, result.Error)
			}
			m := result.Mode
			t.Logf("%+v", m)
			switch m.Kind {
			case Namespace:
				require.False(t, v.denied)
				require.Empty(t, m.Uncovered)
				require.NotEmpty(t, m.Notes)
			case Subreaper:
				require.NotEmpty(t, m.Uncovered)
				require.Len(t, m.Reasons, 2, "why there is no namespace, and none of a user")
				if v.uid == os.Getuid() && noCapabilities() != nil {
					require.Contains(t, m.Reasons[1], "would lose the capabilities")
				}
				require.ErrorContains(t, Config{
					Command: []string{"sh"}, TTL: long, Mode: m, Strict: true,
				}.Check(), strings.Join(m.Reasons, "; "))
			default:
				require.Fail(t, "mode", "%v", m.Kind)
			}
		})
	}
}

func TestSelfTestIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := SelfTest(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

// TestSelfTestNoticesMissingTimer checks that the self-test fails if no timer kills the guardian.
func TestSelfTestNoticesMissingTimer(t *testing.T) {
	apart(t, func(t *testing.T) {
		t.Setenv("LEADERSHIP_TEST_NO_TIMER", "yes")
		_, err := selfTest(t.Context(), subreaperMode())
		require.ErrorContains(t, err, "the kernel's timer did not kill a stopped guardian")
	})
}

// TestSelfTestNoticesAGuardianThatGoesOn checks that the self-test fails if a stopped guardian is continued and ends by
// itself, instead of being killed by the kernel.
func TestSelfTestNoticesAGuardianThatGoesOn(t *testing.T) {
	t.Setenv("LEADERSHIP_TEST_NO_TIMER", "yes")
	tested := make(chan error, 1)
	go func() {
		_, err := selfTest(t.Context(), subreaperMode())
		tested <- err
	}()
	for {
		select {
		case err := <-tested:
			require.ErrorContains(t, err, "the guardian has ended by itself")
			return
		case <-time.After(time.Millisecond):
			children, _ := childrenOf("self")
			for _, pid := range children {
				_ = unix.Kill(pid, unix.SIGCONT)
			}
		}
	}
}

// TestTwoReportsOfAFailure checks that the second report does not block the supervisor.
func TestTwoReportsOfAFailure(t *testing.T) {
	v := &supervisor{started: make(chan error, 1)}
	handled := make(chan struct{})
	go func() {
		defer close(handled)
		v.handle(report{Failed: "of the init"})
		v.handle(report{Failed: "of the guardian"})
	}()
	select {
	case <-handled:
	case <-time.After(long):
		<-v.started // so that the other goroutine ends
		require.Fail(t, "the second report blocks")
	}
	require.EqualError(t, <-v.started, "of the init")
}
