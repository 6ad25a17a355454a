package file

import (
	"os"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// TestMovedAwayAtOnce: the directory, or one above it, is moved away. Without waiting for the next renewal, the leader's term
// ends, and the ballot behind it is lost and never first.
func TestMovedAwayAtOnce(t *testing.T) {
	for name, above := range map[string]bool{"the directory": false, "one above it": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c := configIn(dir + "/above/store") // renewed each quarter of an hour
			leader := lead(t, openWith(t, c, kernel{}), "one")
			waiter, err := openWith(t, c, kernel{}).Cast(soon(t), "e", "two")
			require.NoError(t, err)
			moved := c.Directory
			if above {
				moved = dir + "/above"
			}
			require.NoError(t, os.Rename(moved, dir+"/moved"))
			storetest.Receive(t, leader.Lost(), "the end of the leader's term")
			require.ErrorIs(t, waiter.Wait(soon(t)), store.ErrLost)
		})
	}
}

// TestMovedAwayIsNoHandOver: the leader notices first that the directory was moved away, and ends its session there. The
// ballot behind it stands in that directory too, so the end of the leader is not told as certain.
func TestMovedAwayIsNoHandOver(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	one, two := driverWith(t, c, kernel{}), driverWith(t, c, kernel{})
	first, second := sessionOf(t, one), sessionOf(t, two)
	ahead := (&enterer{t: t, s: first}).enter()
	behind := (&enterer{t: t, s: second}).enter()
	require.Equal(t, ahead.Key, behind.Place.Nearest)
	told := make(chan engine.News, 10)
	w, err := two.WatchEntry(soon(t), ahead.Key, func(n engine.News) { told <- n })
	require.NoError(t, err)
	defer w.Stop()
	require.Equal(t, ahead.Token, storetest.Receive(t, told, "the entry").State.Token)
	require.NoError(t, os.Rename(c.Directory, c.Directory+".moved"))
	require.ErrorIs(t, first.(*session).renew(), engine.ErrOver)
	require.Equal(t, engine.News{Over: true}, storetest.Receive(t, told, "news of the leader's end"))
}
