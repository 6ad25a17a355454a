package file

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// TestSessionFile: the ballot of a process that has died stands until its deadline, and no longer, while another
// process has the session's file open.
func TestSessionFile(t *testing.T) {
	t.Parallel()
	for _, closed := range []bool{true, false} {
		c := configIn(t.TempDir() + "/store")
		if !closed {
			c = configWith(c.Directory, 3*time.Second)
		}
		calls := newDying(-1)
		st := openWith(t, c, calls)
		b := lead(t, st, "first")
		file, err := b.SessionFile()
		require.NoError(t, err)
		defer file.Close()
		calls.die()
		renewed := b.Lease().Last().Sent

		next, err := openWith(t, c, kernel{}).Cast(soon(t), "e", "second")
		require.NoError(t, err)
		if closed {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			require.ErrorIs(t, next.Wait(ctx), context.DeadlineExceeded)
			cancel()
			require.NoError(t, file.Close())
			require.NoError(t, next.Wait(soon(t)))
			continue
		}
		require.NoError(t, next.Wait(soon(t)))
		require.GreaterOrEqual(t, time.Since(renewed), c.TTL, "a ballot whose session's file is open was passed early")
	}
}

// TestSessionFileOfAClosedStore: a session that is closed ends at once, even if a process has its file open.
func TestSessionFileOfAClosedStore(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	st := openWith(t, c, kernel{})
	b := lead(t, st, "first")
	file, err := b.SessionFile()
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, st.Close())
	lead(t, openWith(t, c, kernel{}), "second")
	_, err = b.SessionFile()
	require.ErrorIs(t, err, engine.ErrOver)
	require.ErrorIs(t, err, store.ErrLost)
}
