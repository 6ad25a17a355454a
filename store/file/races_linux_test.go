package file

import (
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// between runs a function of the test between two system calls.
type between struct {
	ops
	afterSymlink func(path string)
	beforeList   func(dir string) error
}

func (b between) symlink(target, path string) error {
	err := b.ops.symlink(target, path)
	if err == nil && b.afterSymlink != nil {
		b.afterSymlink(path)
	}
	return err
}

func (b between) list(dir string) ([]string, error) {
	if b.beforeList != nil {
		if err := b.beforeList(dir); err != nil {
			return nil, err
		}
	}
	return b.ops.list(dir)
}

// TestVoidTicketIsRemovedByAnother: a slow collector removes a void ticket before its owner does. The owner's later
// ticket is of another ballot. A process that saw the void ticket must not wait for that ballot, which waits for it.
func TestVoidTicketIsRemovedByAnother(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	d := driverWith(t, c, kernel{})
	other := &enterer{t: t, s: sessionOf(t, d)}
	other.remove(other.enter())
	stage := 0
	var f engine.Entry
	calls := between{ops: hooked{ops: kernel{}, beforeSymlink: func(_, path string) {
		if stage == 0 && strings.Contains(path, "/_q/") {
			stage = 1
			for range 5 {
				other.remove(other.enter())
			}
			require.NoError(t, d.dirOf("e").collect(d, map[string]bool{}))
		}
	}}, afterSymlink: func(path string) {
		if stage == 1 && strings.Contains(path, "/_q/") {
			stage = 2
			f = other.enter() // sees the void ticket
			require.NoError(t, os.Remove(path))
		}
	}}
	e := (&enterer{t: t, s: sessionOf(t, driverWith(t, c, calls))}).enter()
	require.Equal(t, 2, stage)
	_, _, name := splitKey(e.Key)
	require.False(t, strings.HasSuffix(f.Place.Nearest, name) && e.Place.Nearest == f.Key, "each waits for the other")
}

// TestTicketMayStandAfterAnError: the error says that it might, so the engine makes the nonce void.
func TestTicketMayStandAfterAnError(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	var fail atomic.Bool
	d := driverWith(t, c, between{
		ops:          kernel{},
		afterSymlink: func(path string) { fail.CompareAndSwap(false, strings.Contains(path, "/_q/")) },
		beforeList: func(dir string) error {
			if fail.Load() && strings.HasSuffix(dir, "/f") {
				return &os.PathError{Op: "open", Path: dir, Err: syscall.EMFILE}
			}
			return nil
		},
	})
	s, nonce := sessionOf(t, d), engine.Nonce{Name: unique(), Turn: 1}
	_, err := s.Enter(soon(t), "e", nonce, "v")
	require.ErrorIs(t, err, store.ErrUnknownOutcome)
	require.NoError(t, s.Void(soon(t), "e", nonce))
	list, err := driverWith(t, c, kernel{}).Ballots(soon(t), "e")
	require.NoError(t, err)
	require.Empty(t, list)
}

// TestLinksAreNotFollowed: a user who may write to the directory could put links there to files of others.
func TestLinksAreNotFollowed(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	victim := t.TempDir()
	require.NoError(t, os.WriteFile(victim+"/key", nil, 0o600))
	d := driverWith(t, c, kernel{})
	sessionOf(t, d)
	(&enterer{t: t, s: sessionOf(t, d)}).enter()
	require.NoError(t, os.Symlink(victim, c.Directory+"/t/0000000000000000-x"))
	require.NoError(t, os.Symlink(victim, d.dirOf("e").ballot("~x")))
	sessionOf(t, d)
	d.dirOf("e").tidyBallots(d)
	d.life.Wait()
	require.FileExists(t, victim+"/key")
}

// TestTidySparesWhatIsBeingMade: it was made after the listing.
func TestTidySparesWhatIsBeingMade(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	other := driverWith(t, c, kernel{})
	sessionOf(t, other)
	other.life.Wait()
	fresh := ""
	driverWith(t, c, between{ops: kernel{}, beforeList: func(dir string) error {
		if strings.HasSuffix(dir, "/t") && fresh == "" {
			fresh = other.temporary()
			require.NoError(t, os.Mkdir(fresh, 0o777))
		}
		return nil
	}}).tidy()
	require.DirExists(t, fresh)
}

// TestNothingIsConfirmedOfASessionThatIsOver: the session ended without an event, since the machine was suspended.
func TestNothingIsConfirmedOfASessionThatIsOver(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	d := driverWith(t, c, kernel{})
	one := &enterer{t: t, s: sessionOf(t, d)}
	_, err := one.s.Acknowledge(soon(t), one.enter(), "one")
	require.NoError(t, err)
	f := driverWith(t, c, kernel{})
	var ahead atomic.Int64
	now := f.clock
	f.clock = func() time.Duration { return now() + time.Duration(ahead.Load()) }
	var told []engine.News
	w, err := f.WatchLeader(soon(t), "e", func(n engine.News) { told = append(told, n) })
	require.NoError(t, err)
	defer w.Stop()
	require.NoError(t, f.Confirm(soon(t)))
	require.False(t, told[len(told)-1].AsOf.IsZero())
	ahead.Store(int64(2 * time.Hour))
	require.NoError(t, f.Confirm(soon(t)))
	require.True(t, told[len(told)-1].Over)
}

// TestTicketIsRemoved: its ballot is lost, since the next candidate does not count it. Its token is not given out
// again.
func TestTicketIsRemoved(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	st := openWith(t, c, kernel{})
	b := lead(t, st, "one")
	for _, name := range files(t, c.Directory+"/e/e/_q")[1:] {
		require.NoError(t, os.Remove(name))
	}
	<-b.Lost()
	require.ErrorIs(t, b.Err(), store.ErrLost)
	require.NoError(t, b.Withdraw(soon(t)))
	require.Greater(t, lead(t, st, "two").Token(), b.Token())
}

// TestForeignFileInASession: its elections go on.
func TestForeignFileInASession(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	one, two := driverWith(t, c, kernel{}), driverWith(t, c, kernel{})
	e := &enterer{t: t, s: sessionOf(t, one)}
	e.enter()
	require.NoError(t, os.WriteFile(one.sessionDir(e.s.ID())+"/x~", nil, 0o600))
	list, err := two.Ballots(soon(t), "e")
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.NoError(t, e.s.End(soon(t), nil))
	list, err = two.Ballots(soon(t), "e")
	require.NoError(t, err)
	require.Empty(t, list)
}

// TestTemporaryDirectoryIsRemoved: candidates still acknowledge.
func TestTemporaryDirectoryIsRemoved(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	st := openWith(t, c, kernel{})
	b := lead(t, st, "one")
	require.NoError(t, os.RemoveAll(c.Directory+"/t"))
	_, err := b.Acknowledge(soon(t), "two")
	require.NoError(t, err)
}

// TestDirectoryIsAFile: Open says so.
func TestDirectoryIsAFile(t *testing.T) {
	file := t.TempDir() + "/file"
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, dir := range []string{file, file + "/store"} {
		_, err := Open(Config{Directory: dir})
		require.ErrorIs(t, err, store.ErrInvalid)
		require.ErrorContains(t, err, "no directory")
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

// full is a disk on which no directory entry can get longer.
type full struct{ ops }

func (f full) rename(from, to string) error {
	if strings.Contains(to, "~") {
		return &os.PathError{Op: "rename", Path: from, Err: syscall.ENOSPC}
	}
	return f.ops.rename(from, to)
}

// TestWithdrawOnAFullDisk: the ballot's directory is removed in place.
func TestWithdrawOnAFullDisk(t *testing.T) {
	st := openWith(t, configIn(t.TempDir()+"/store"), full{kernel{}})
	b := lead(t, st, "one")
	require.NoError(t, b.Withdraw(soon(t)))
	lead(t, st, "two")
}

// TestAnotherDirectoryHasTheName: reports of the old directory do not hold for the new one, which is read again.
func TestAnotherDirectoryHasTheName(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	st, follower := openWith(t, c, kernel{}), openWith(t, c, kernel{})
	b := lead(t, st, "one")
	require.NoError(t, b.Withdraw(soon(t)))
	leads(t, follower, "")
	require.NoError(t, os.Rename(c.Directory, c.Directory+".old"))
	lead(t, openWith(t, c, kernel{}), "two")
	leads(t, follower, "two")
}
