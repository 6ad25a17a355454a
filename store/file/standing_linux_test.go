package file

import (
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// TestFirst: the entry that is first in line, with its session and nonce.
func TestFirst(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	var misses string
	d := driverWith(t, c, stale{kernel{}, &misses})
	first := func() engine.State {
		t.Helper()
		state, err := d.First(soon(t), "e")
		require.NoError(t, err)
		return state
	}
	require.Zero(t, first(), "there is no directory")
	one, two := sessionOf(t, d), sessionOf(t, driverWith(t, c, kernel{}))
	enter := func(s engine.Session, nonce string) engine.Entry {
		t.Helper()
		e, err := s.Enter(soon(t), "e", engine.Nonce{Name: nonce, Turn: uint64(len(nonce))}, "value")
		require.NoError(t, err)
		return e
	}
	a, b := enter(one, "a"), enter(two, "b")
	c2 := enter(one, "aa")
	require.False(t, b.Place.More, "there is none ahead but the nearest")
	require.True(t, c2.Place.More)
	require.Equal(t, engine.State{Token: a.Token, Session: one.ID(), Nonce: "a"}, first())
	d.life.Wait()
	misses = numberIn(d.dirOf("e").queue(), a.Token)
	require.Equal(t, a.Token, first().Token, "a listing has missed it")
	require.NoError(t, one.Remove(soon(t), engine.Removal{Entry: a}))
	require.Equal(t, engine.State{Token: b.Token, Session: two.ID(), Nonce: "b"}, first())
	require.NoError(t, two.End(soon(t), nil))
	require.Equal(t, engine.State{Token: c2.Token, Session: one.ID(), Nonce: "aa"}, first())
	require.NoError(t, one.End(soon(t), nil))
	require.Zero(t, first())
}

// TestListedBallotHasItsValue: a ballot whose value is being written is not listed without it.
func TestListedBallotHasItsValue(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	other := openWith(t, c, kernel{})
	looked := false
	st := openWith(t, c, around{kernel{}, func(op, file string, call func() error) error {
		if op == "write" && strings.HasSuffix(path.Base(file), "value") && !looked {
			looked = true
			require.NoError(t, os.WriteFile(file, nil, 0o600)) // the kernel makes the file first
			list, err := other.Ballots(soon(t), "e")
			require.NoError(t, err)
			require.Empty(t, list)
		}
		return call()
	}})
	_, err := st.Cast(soon(t), "e", "one")
	require.NoError(t, err)
	require.True(t, looked)
	list, err := other.Ballots(soon(t), "e")
	require.NoError(t, err)
	require.Equal(t, "one", list[0].Value)
}

// stale misses one name in its first listing of a queue, as a listing may that is under way when the name is made.
type stale struct {
	ops
	misses *string // a path; empty: none
}

func (s stale) list(dir string) ([]string, error) {
	names, err := s.ops.list(dir)
	if dir == path.Dir(*s.misses) {
		names = slices.DeleteFunc(names, func(name string) bool { return name == path.Base(*s.misses) })
		*s.misses = ""
	}
	return names, err
}

// TestListingMissesATicket: a listing shows a ticket, and not the one before it, which was made during the listing.
func TestListingMissesATicket(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	d := driverWith(t, c, kernel{})
	other := &enterer{t: t, s: sessionOf(t, d)}
	leader, waiter := other.enter(), other.enter()

	var misses string
	slow := driverWith(t, c, stale{kernel{}, &misses})
	s := &enterer{t: t, s: sessionOf(t, slow)}
	slow.life.Wait() // no other listing is under way
	misses = numberIn(d.dirOf("e").queue(), leader.Token)
	entry := s.enter()
	require.Empty(t, misses)
	require.Equal(t, waiter.Key, entry.Place.Nearest)
	require.True(t, entry.Place.More, "the leader is ahead too")

	slow.life.Wait()
	misses = numberIn(d.dirOf("e").queue(), leader.Token)
	list, err := slow.Ballots(soon(t), "e")
	require.NoError(t, err)
	require.Empty(t, misses)
	require.Len(t, list, 3)
}

// TestListingFails: the ticket is made, and what is ahead of it can't be listed. The engine hears that the ballot stands,
// so that it voids it if the caller goes.
func TestListingFails(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	var fails atomic.Bool
	slow := driverWith(t, c, around{kernel{}, func(op, path string, call func() error) error {
		if fails.Load() && op == "readdir" && strings.HasSuffix(path, "/_q") {
			return failed(op, path, syscall.EMFILE)
		}
		if op == "symlink" {
			fails.Store(strings.Contains(path, "/_q/"))
		}
		return call()
	}})
	entry, err := sessionOf(t, slow).Enter(soon(t), "e", engine.Nonce{Name: unique(), Turn: 1}, "value")
	require.ErrorIs(t, err, syscall.EMFILE)
	require.NotZero(t, entry.Token)
}
