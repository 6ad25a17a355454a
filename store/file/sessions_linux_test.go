package file

import (
	"os"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// stands reports whether the ballot of an entry has its directory.
func stands(t *testing.T, d *driver, e engine.Entry) bool {
	t.Helper()
	_, _, name := splitKey(e.Key)
	there, err := d.ops.exists(d.dirOf("e").ballot(name))
	require.NoError(t, err)
	return there
}

// TestBallotGoesWithItsOwnSession: the watch of the leader checks the ballots of two sessions, if the leader changes
// while it reads. When the first session ends, its ballot is withdrawn, and the other session's is not.
func TestBallotGoesWithItsOwnSession(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	of := driverWith(t, c, kernel{})
	first, second := &enterer{t: t, s: sessionOf(t, of)}, &enterer{t: t, s: sessionOf(t, driverWith(t, c, kernel{}))}
	old, next := first.enter(), second.enter()
	d := driverWith(t, c, kernel{})
	told := make(chan struct{}, 1)
	w := d.newWatch(func(n engine.News) {
		if n.Over {
			told <- struct{}{}
		}
	})
	for _, e := range []engine.Entry{old, next} {
		_, _, name := splitKey(e.Key)
		over, err := w.session(d.dirOf("e"), name)
		require.NoError(t, err)
		require.False(t, over)
	}
	w.tells(engine.State{})

	require.NoError(t, first.s.(*session).remove()) // its process has ended: nothing else is removed
	<-told
	storetest.Eventually(t, func() bool { return !stands(t, d, old) || !stands(t, d, next) }, "a ballot is withdrawn")
	require.True(t, stands(t, d, next), "the ballot of another session was withdrawn")
}

// TestForeignFileIsRemovedFromASession: a file that an operator puts into a session's directory, and removes again, ends no session.
func TestForeignFileIsRemovedFromASession(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	holder := &enterer{t: t, s: sessionOf(t, driverWith(t, c, kernel{}))}
	e := holder.enter()
	d := driverWith(t, c, kernel{})
	told := make(chan engine.News, 10)
	watch, err := d.WatchEntry(soon(t), e.Key, func(n engine.News) { told <- n })
	require.NoError(t, err)
	require.Equal(t, e.Token, (<-told).State.Token)

	foreign := d.sessionDir(holder.s.ID()) + "/foreign"
	require.NoError(t, os.WriteFile(foreign, nil, 0o666))
	require.NoError(t, os.Remove(foreign))
	require.NoError(t, d.Confirm(soon(t))) // everything so far has been reported
	n := <-told
	require.Nil(t, n.State)
	require.False(t, n.Over)
	require.False(t, n.AsOf.IsZero())
	watch.Stop()
}
