package guard

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestInitOfADeadGuardian checks that an init starts nothing if its guardian has died, also if the guardian has told
// it to start before.
func TestInitOfADeadGuardian(t *testing.T) {
	for _, dead := range []bool{false, true} {
		ours, theirs, err := newLinks()
		require.NoError(t, err)
		require.NoError(t, ours.send(request{Start: true}))
		if dead {
			require.NoError(t, ours.file.Close())
		}
		require.Equal(t, !dead, mayStart(theirs))
		_, _ = ours.file.Close(), theirs.file.Close()
	}
}

// TestWhyTheInitFailed checks that the error is the reason of the init, and not that a guardian which was slow could
// not reach it any more.
func TestWhyTheInitFailed(t *testing.T) {
	eachGuardedMode(t, func(t *testing.T, m Mode) {
		if m.Kind != Namespace {
			return // no init
		}
		c := shell(m, ":")
		c.Env = append(os.Environ(), "LEADERSHIP_TEST_FAIL=yes")
		_, err := Start(c, lasts(long))
		require.EqualError(t, err, "the init's reason")
	})
}

// failSlowly makes the init fail, and the guardian so slow that it finds the init dead.
func failSlowly() {
	if os.Args[0] == initName {
		must(newLink(linkFD).send(report{Failed: "the init's reason"}))
		os.Exit(0)
	}
	beforeStart = func() {
		for unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
			continue
		}
	}
}
