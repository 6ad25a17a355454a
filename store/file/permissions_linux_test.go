package file

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

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

// TestCloseOnExec: a child process keeps no file of the store open, since that would keep its lock.
func TestCloseOnExec(t *testing.T) {
	dir := t.TempDir() + "/store"
	lead(t, openWith(t, configIn(dir), kernel{}), "value")
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	found := 0
	for _, fd := range list {
		target, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err != nil || !strings.HasPrefix(target, dir) && !strings.Contains(target, "inotify") {
			continue
		}
		info, err := os.ReadFile("/proc/self/fdinfo/" + fd.Name())
		if missing(err) { // it was open for a moment
			continue
		}
		require.NoError(t, err)
		var flags int64
		for line := range strings.Lines(string(info)) {
			if octal, ok := strings.CutPrefix(line, "flags:"); ok {
				for _, digit := range strings.TrimSpace(octal) {
					flags = flags<<3 | int64(digit-'0')
				}
			}
		}
		require.NotZero(t, flags&syscall.O_CLOEXEC, target)
		found++
	}
	require.GreaterOrEqual(t, found, 2, "the session's file and inotify")
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
