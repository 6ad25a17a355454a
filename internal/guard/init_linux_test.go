package guard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestInitOfADeadGuardian checks that an init starts nothing if its guardian has died, also if the guardian has told it to
// start before.
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
