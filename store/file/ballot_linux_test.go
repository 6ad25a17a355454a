package file

import (
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// TestFailedCastsLeaveNothing in the directory.
func TestFailedCastsLeaveNothing(t *testing.T) {
	d := driverWith(t, configIn(t.TempDir()+"/store"), failing(syscall.ENOSPC, func(op, path string) bool { return op == "write" && strings.HasSuffix(path, "/.value") }))
	s := sessionOf(t, d)
	for turn := range uint64(5) {
		_, err := s.Enter(soon(t), "e", engine.Nonce{Name: unique(), Turn: turn + 1}, "v")
		require.ErrorIs(t, err, store.ErrUnavailable)
	}
	d.life.Wait()
	require.Len(t, files(t, d.dirOf("e").ballots()), 1)
}

// TestVoidRefusesALateRequest: a request to enter is carried out after its nonce was made void.
func TestVoidRefusesALateRequest(t *testing.T) {
	d := driverWith(t, configIn(t.TempDir()+"/store"), kernel{})
	s, n := sessionOf(t, d), engine.Nonce{Name: unique(), Turn: 1}
	require.NoError(t, s.Void(soon(t), "e", n))
	_, err := s.Enter(soon(t), "e", n, "value")
	require.ErrorIs(t, err, store.ErrUnavailable)
	list, err := d.Ballots(soon(t), "e")
	require.NoError(t, err)
	require.Empty(t, list)
}

// TestTicketStandsAfterAnError: the ballot is withdrawn. If that fails too, the error says that the ticket might stand.
func TestTicketStandsAfterAnError(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		var fail atomic.Bool
		c := configIn(t.TempDir() + "/store")
		d := driverWith(t, c, around{kernel{}, func(op, path string, call func() error) error {
			if fail.Load() && (op == "readdir" && strings.HasSuffix(path, "/f") || stuck && op == "rename") {
				return failed(op, path, syscall.EMFILE)
			}
			err := call()
			if op == "symlink" && strings.Contains(path, "/_q/") {
				fail.Store(true)
			}
			return err
		}})
		s, nonce := sessionOf(t, d), engine.Nonce{Name: unique(), Turn: 1}
		_, err := s.Enter(soon(t), "e", nonce, "v")
		require.ErrorIs(t, err, map[bool]error{false: store.ErrUnavailable, true: store.ErrUnknownOutcome}[stuck])
		fail.Store(false)
		if stuck {
			require.NoError(t, s.Void(soon(t), "e", nonce))
		}
		list, err := driverWith(t, c, kernel{}).Ballots(soon(t), "e")
		require.NoError(t, err)
		require.Empty(t, list)
	}
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
	calls := around{kernel{}, func(op, path string, call func() error) error {
		if op != "symlink" || !strings.Contains(path, "/_q/") {
			return call()
		}
		if stage == 0 {
			stage = 1
			for range 5 {
				other.remove(other.enter())
			}
			require.NoError(t, d.dirOf("e").collect(d, d.dirOf("e").queue()))
		}
		err := call()
		if stage == 1 && err == nil {
			stage = 2
			f = other.enter() // sees the void ticket
			require.NoError(t, os.Remove(path))
		}
		return err
	}}
	e := (&enterer{t: t, s: sessionOf(t, driverWith(t, c, calls))}).enter()
	require.Equal(t, 2, stage)
	_, _, name := splitKey(e.Key)
	require.False(t, strings.HasSuffix(f.Place.Nearest, name) && e.Place.Nearest == f.Key, "each waits for the other")
}

// TestAheadInASessionThatIsOver: the error says so, and not that the ballot was removed.
func TestAheadInASessionThatIsOver(t *testing.T) {
	d := driverWith(t, configIn(t.TempDir()+"/store"), kernel{})
	s := &enterer{t: t, s: sessionOf(t, d)}
	e := s.enter()
	require.NoError(t, s.s.(*session).remove())
	_, err := d.Ahead(soon(t), e)
	require.ErrorIs(t, err, engine.ErrOver)
}

// TestTicketIsRemoved: its ballot is lost, since the next candidate does not count it, and is withdrawn, so that followers see
// no leader. Its token is not given out again.
func TestTicketIsRemoved(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	st := openWith(t, c, kernel{})
	b := lead(t, st, "one")
	for _, name := range files(t, c.Directory+"/e/e/_q")[1:] {
		require.NoError(t, os.Remove(name))
	}
	<-b.Lost()
	require.ErrorIs(t, b.Err(), store.ErrLost)
	leads(t, openWith(t, c, kernel{}), "")
	require.NoError(t, b.Withdraw(soon(t)))
	require.Greater(t, lead(t, st, "two").Token(), b.Token())
}

// TestWithdrawOnAFullDisk: the ballot's directory is removed in place.
func TestWithdrawOnAFullDisk(t *testing.T) {
	st := openWith(t, configIn(t.TempDir()+"/store"), failing(syscall.ENOSPC, func(op, path string) bool { return op == "rename" && strings.Contains(path, "~") }))
	b := lead(t, st, "one")
	require.NoError(t, b.Withdraw(soon(t)))
	lead(t, st, "two")
}
