package file

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// TestVersion: a directory with another layout is refused, also if it was made after the store was opened.
func TestVersion(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	early := openWith(t, c, kernel{})
	lead(t, openWith(t, c, kernel{}), "value")
	text, err := os.ReadFile(c.Directory + "/version")
	require.NoError(t, err)
	require.Regexp(t, `^2\n`, string(text))
	for _, other := range []string{"1\n", "3\n", "", "new"} {
		require.NoError(t, os.WriteFile(c.Directory+"/version", []byte(other), 0o600))
		_, err = Open(c)
		require.ErrorIs(t, err, store.ErrInvalid)
		require.ErrorContains(t, err, "version 2")
		_, err = early.Cast(soon(t), "e", "value")
		require.ErrorIs(t, err, store.ErrInvalid)
	}
}

// TestDirectoryForAllUsers is refused.
func TestDirectoryForAllUsers(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	require.NoError(t, os.Mkdir(c.Directory, 0o700))
	require.NoError(t, os.Chmod(c.Directory, 0o777))
	_, _, err := driverWith(t, c, kernel{}).Open(soon(t))
	require.ErrorIs(t, err, store.ErrInvalid)
	require.ErrorContains(t, err, "chmod o-w")
}

const someone, group = 54321, 54322

// reachable makes all parent directories readable for all users.
func reachable(t *testing.T, dir string) string {
	t.Helper()
	for up := dir; up != os.TempDir() && up != "/"; up = filepath.Dir(up) {
		require.NoError(t, os.Chmod(up, 0o755))
	}
	return dir
}

// TestUnwritable: a candidate that may not write is denied at once, and nothing is made.
func TestUnwritable(t *testing.T) {
	needRoot(t)
	for name, dir := range map[string]string{"directory": "", "its parent": "/a/b"} {
		t.Run(name, func(t *testing.T) {
			parent := reachable(t, t.TempDir())
			st := openWith(t, configIn(parent+dir), as(kernel{}, someone, group))
			meter, began := stall.Watch(t), time.Now()
			_, err := st.Cast(soon(t), "e", "value")
			require.ErrorIs(t, err, store.ErrDenied)
			require.ErrorContains(t, err, "need to read and write")
			require.Less(t, time.Since(began), 2*time.Second+meter.Stalled(), "%v", meter)
			require.Len(t, files(t, parent), 1)
		})
	}
}

// TestReadOnlyFollower: a follower that may only read learns of each leader, also if the leader's directories are made
// after the follower started. It counts a frozen leader as gone after the deadline. It changes nothing.
func TestReadOnlyFollower(t *testing.T) {
	needRoot(t)
	t.Parallel()
	parent := reachable(t, t.TempDir())
	c := configIn(parent + "/a/store")
	follower := openWith(t, c, as(kernel{}, someone, group))
	leads(t, follower, "")
	st := openWith(t, c, kernel{})
	b := lead(t, st, "one")
	leads(t, follower, "one")
	require.NoError(t, b.Withdraw(soon(t)))
	leads(t, follower, "")
	require.NoError(t, st.Close()) // its audit would remove a session that is over

	d := driverWith(t, configWith(c.Directory, 3*time.Second), kernel{})
	s := &enterer{t: t, s: sessionOf(t, d)} // it is not renewed, and its process lives
	frozen := s.enter()
	_, err := s.s.Acknowledge(soon(t), frozen, "two")
	require.NoError(t, err)
	leads(t, follower, "two")
	listed, err := follower.Elections(soon(t))
	require.NoError(t, err)
	require.Equal(t, []string{"e"}, listed)
	before := files(t, c.Directory+"/s/"+s.s.ID())
	leads(t, follower, "")
	require.Equal(t, before, files(t, c.Directory+"/s/"+s.s.ID()), "it removes nothing")
	require.ErrorIs(t, s.s.(*session).renew(), engine.ErrOver, "the session does not come back")
	lead(t, openWith(t, c, kernel{}), "three")
	leads(t, follower, "three")
	_, err = follower.Cast(soon(t), "e", "value")
	require.ErrorIs(t, err, store.ErrDenied)
}

// TestSharedGroup: users of one group take part in a directory that is set up for it, whatever the umask.
func TestSharedGroup(t *testing.T) {
	needRoot(t)
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	dir := reachable(t, t.TempDir()) + "/store"
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Chown(dir, 0, group))
	require.NoError(t, os.Chmod(dir, 0o770|os.ModeSetgid))
	c := configIn(dir)
	one, two := openWith(t, c, as(kernel{}, someone, group)), openWith(t, c, as(kernel{}, someone+1, group))
	first := lead(t, one, "one")
	second, err := two.Cast(soon(t), "e", "two")
	require.NoError(t, err)
	leads(t, two, "one")
	require.NoError(t, two.RequestResignation(soon(t), "e", first.Token()))
	<-first.ResignationRequested()
	shown(t, dir)
	for _, path := range files(t, dir) {
		var st syscall.Stat_t
		require.NoError(t, syscall.Lstat(path, &st))
		require.EqualValues(t, group, st.Gid, path)
		switch st.Mode & syscall.S_IFMT {
		case syscall.S_IFDIR:
			require.EqualValues(t, 0o2770, st.Mode&0o7777, path)
		case syscall.S_IFREG:
			require.EqualValues(t, 0o660, st.Mode&0o7777, path)
		}
	}
	require.NoError(t, first.Withdraw(soon(t)))
	require.NoError(t, second.Wait(soon(t)))
	_, err = second.Acknowledge(soon(t), "two")
	require.NoError(t, err)
	leads(t, one, "two")
	// A frozen leader of one user is replaced by the other user.
	s := &enterer{t: t, s: sessionOf(t, driverWith(t, configWith(dir, 2*time.Second), as(kernel{}, someone, group)))}
	s.enter()
	third, err := two.Cast(soon(t), "e", "three")
	require.NoError(t, err)
	require.NoError(t, second.Withdraw(soon(t)))
	require.NoError(t, third.Wait(soon(t)))
}

// TestUmaskOfOne: a directory that is not shared has the permissions that the umask leaves.
func TestUmaskOfOne(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	dir := t.TempDir() + "/store"
	lead(t, openWith(t, configIn(dir), kernel{}), "value")
	shown(t, dir)
	for _, path := range files(t, dir) {
		st, err := os.Lstat(path)
		require.NoError(t, err)
		if st.Mode()&os.ModeSymlink == 0 {
			require.Zero(t, st.Mode()&0o077, path)
		}
	}
}

// TestUnreadableList: a user who may not read a directory is denied the list of elections. A file of another program is no
// election.
func TestUnreadableList(t *testing.T) {
	needRoot(t)
	dir := reachable(t, t.TempDir()) + "/store"
	st := openWith(t, configIn(dir), kernel{})
	other := openWith(t, configIn(dir), as(kernel{}, someone, group))
	listed, err := other.Elections(soon(t))
	require.NoError(t, err, "there is no directory yet")
	require.Empty(t, listed)
	lead(t, st, "value")
	require.NoError(t, os.WriteFile(dir+"/e/file", nil, 0o600))
	listed, err = st.Elections(soon(t))
	require.NoError(t, err)
	require.Equal(t, []string{"e"}, listed)
	require.NoError(t, os.Chmod(dir+"/e", 0o700))
	_, err = other.Elections(soon(t))
	require.ErrorIs(t, err, store.ErrDenied)
}
