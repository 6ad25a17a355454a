package file

import (
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// enterer makes entries in a session.
type enterer struct {
	t    *testing.T
	s    engine.Session
	turn uint64
}

func (e *enterer) enter() engine.Entry {
	e.t.Helper()
	e.turn++
	entry, err := e.s.Enter(soon(e.t), "e", engine.Nonce{Name: unique(), Turn: e.turn}, "value")
	require.NoError(e.t, err)
	entry.Election = "e"
	return entry
}

func (e *enterer) remove(entry engine.Entry) {
	e.t.Helper()
	require.NoError(e.t, e.s.Remove(soon(e.t), engine.Removal{Entry: entry}))
}

// TestTicketsAreCollected: hundreds of ballots leave few files, and tokens grow.
func TestTicketsAreCollected(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	one, two := driverWith(t, c, kernel{}), driverWith(t, c, kernel{})
	a, b := &enterer{t: t, s: sessionOf(t, one)}, &enterer{t: t, s: sessionOf(t, two)}
	first, last := a.enter(), uint64(0)
	_, err := a.s.Acknowledge(soon(t), first, "value")
	require.NoError(t, err)
	for i := range 400 {
		by := []*enterer{a, b}[i%2]
		entry := by.enter()
		require.Greater(t, entry.Token, last)
		require.Equal(t, first.Key, entry.Place.Nearest, "the leader, which was first, stands")
		last = entry.Token
		by.remove(entry)
	}
	one.life.Wait()
	two.life.Wait()
	require.Less(t, len(files(t, c.Directory)), 150)
}

// TestLateTicketIsVoid: a process is stopped between finding a free number and taking it. Meanwhile all tickets up to
// there are collected, so that its number is free. The second read of the floor finds that.
func TestLateTicketIsVoid(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	d := driverWith(t, c, kernel{})
	other := &enterer{t: t, s: sessionOf(t, d)}
	other.remove(other.enter())
	var leader engine.Entry
	late := false
	h := hooked{ops: kernel{}, beforeSymlink: func(_, path string) {
		if late || !strings.Contains(path, "/_q/") {
			return
		}
		late = true
		for range 5 {
			other.remove(other.enter())
		}
		leader = other.enter()
		require.Empty(t, leader.Place.Nearest, "it leads")
		require.NoError(t, d.dirOf("e").collect(d, map[string]bool{}))
		there, err := kernel{}.exists(path)
		require.NoError(t, err)
		require.False(t, there, "the number that the other process has found is free again")
	}}
	slow := &enterer{t: t, s: sessionOf(t, driverWith(t, c, h))}
	entry := slow.enter()
	require.True(t, late)
	require.Greater(t, entry.Token, leader.Token)
	require.Equal(t, leader.Key, entry.Place.Nearest)
	list, err := d.Ballots(soon(t), "e")
	require.NoError(t, err)
	require.Len(t, list, 2)
}

// TestLateTicketIsVoidAfterAnOpening: as TestLateTicketIsVoid, but nothing was collected. Another process has opened the
// directory, which begins above the number.
func TestLateTicketIsVoidAfterAnOpening(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	first := &enterer{t: t, s: sessionOf(t, driverWith(t, c, kernel{}))}
	first.remove(first.enter())
	var leader engine.Entry
	late := false
	slow := &enterer{t: t, s: sessionOf(t, driverWith(t, c, hooked{ops: kernel{}, beforeSymlink: func(_, path string) {
		if late || !strings.Contains(path, "/_q/") {
			return
		}
		late = true
		leader = (&enterer{t: t, s: sessionOf(t, driverWith(t, c, kernel{}))}).enter()
		require.Empty(t, leader.Place.Nearest, "it leads")
	}}))}
	entry := slow.enter()
	require.True(t, late)
	require.Greater(t, entry.Token, leader.Token)
	require.Equal(t, leader.Key, entry.Place.Nearest)
}

// TestVoidTicketIsNotListed: the owner of a void ticket is stopped before it removes it.
func TestVoidTicketIsNotListed(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	d := driverWith(t, c, kernel{})
	late, checked := false, false
	slow := &enterer{t: t, s: sessionOf(t, driverWith(t, c, between{ops: hooked{ops: kernel{}, beforeSymlink: func(_, path string) {
		if !late && strings.Contains(path, "/_q/") {
			late = true
			(&enterer{t: t, s: sessionOf(t, d)}).enter()
		}
	}}, afterSymlink: func(path string) {
		if !checked && strings.Contains(path, "/_q/") {
			checked = true
			list, err := d.Ballots(soon(t), "e")
			require.NoError(t, err)
			require.Len(t, list, 1)
		}
	}}))}
	slow.enter()
	require.True(t, checked)
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
	slow := driverWith(t, c, between{
		ops:          kernel{},
		afterSymlink: func(path string) { fails.Store(strings.Contains(path, "/_q/")) },
		beforeList: func(dir string) error {
			if fails.Load() && strings.HasSuffix(dir, "/_q") {
				return &os.PathError{Op: "open", Path: dir, Err: syscall.EMFILE}
			}
			return nil
		},
	})
	entry, err := sessionOf(t, slow).Enter(soon(t), "e", engine.Nonce{Name: unique(), Turn: 1}, "value")
	require.ErrorIs(t, err, syscall.EMFILE)
	require.NotZero(t, entry.Token)
}

// TestNumbersBegin: at the wall clock in a new directory, and then above all that any process might have given out before
// the power failed.
func TestNumbersBegin(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	before := time.Now()
	one := driverWith(t, c, kernel{})
	first := (&enterer{t: t, s: sessionOf(t, one)}).enter()
	require.GreaterOrEqual(t, first.Token, uint64(before.UnixMicro()))
	require.Less(t, first.Token, uint64(time.Now().Add(time.Hour).UnixMicro()))
	f, err := one.numbers.floors()
	require.NoError(t, err)
	require.Less(t, first.Token, f.end)
	require.Equal(t, f.end, one.numbers.durable.Load())

	two := &enterer{t: t, s: sessionOf(t, driverWith(t, c, kernel{}))}
	require.Greater(t, two.enter().Token, f.end)
	require.NoError(t, one.Clear(soon(t), ""))
	three := (&enterer{t: t, s: sessionOf(t, one)}).enter()
	require.Greater(t, three.Token, f.end, "tokens go on growing when all is cleared")
}

// TestPartsAreRemoved: whatever an operator removes, tokens and revisions grow, in the process that has used the
// directory and in one that is new to it, and no two processes get the same.
func TestPartsAreRemoved(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"e/e/_q", "e/e/_a", "e/e/_b", "e/e", "e", "f", "version", "t", ""} {
		t.Run(strings.ReplaceAll(part, "/", " "), func(t *testing.T) {
			c := configIn(t.TempDir() + "/store")
			old := driverWith(t, c, kernel{})
			var token, revision uint64
			next := func(d *driver) {
				t.Helper()
				s, entry := sessionOf(t, d), engine.Entry{}
				for turn := range uint64(3) {
					var err error
					entry, err = s.Enter(soon(t), "e", engine.Nonce{Name: unique(), Turn: turn + 1}, "value")
					require.NoError(t, err)
					require.Greater(t, entry.Token, token)
					token = entry.Token
					number, err := s.Acknowledge(soon(t), entry, "value")
					require.NoError(t, err)
					require.Greater(t, number, revision)
					revision = number
				}
			}
			remove := func() {
				t.Helper()
				old.life.Wait()                       // nothing is made meanwhile
				storetest.Eventually(t, func() bool { // processes do not start for ever each few milliseconds
					return uint64(time.Now().UnixMicro()) > max(token, revision)
				}, "the clock passes the numbers")
				require.NoError(t, os.RemoveAll(path.Join(c.Directory, part)))
			}
			for range 3 {
				next(old)
				remove()
				next(old)
				remove()
				other := driverWith(t, c, kernel{})
				next(other)
				other.life.Wait()
				remove()
			}
		})
	}
}

// TestEndThatHasGone: the wall clock was set back, so that it does not bound the next token.
func TestEndThatHasGone(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	d := driverWith(t, c, kernel{})
	s := &enterer{t: t, s: sessionOf(t, d)}
	s.enter()
	f, err := d.numbers.floors()
	require.NoError(t, err)
	_, err = d.numbers.raise(f, f.end+1<<60)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(c.Directory+"/e"))
	require.NoError(t, os.RemoveAll(c.Directory+"/f"))
	require.Greater(t, s.enter().Token, f.end+1<<60)
}

// TestFloorsAreRemoved: hundreds of new elections leave few floors, and tokens grow.
func TestFloorsAreRemoved(t *testing.T) {
	t.Parallel()
	c := configIn(t.TempDir() + "/store")
	d := driverWith(t, c, kernel{})
	s, last := sessionOf(t, d), uint64(0)
	for i := range uint64(300) {
		entry, err := s.Enter(soon(t), "e"+unique(), engine.Nonce{Name: unique(), Turn: i + 1}, "value")
		require.NoError(t, err)
		require.Greater(t, entry.Token, last)
		last = entry.Token
		names, err := d.ops.list(d.floorDir())
		require.NoError(t, err)
		require.LessOrEqual(t, len(names), most+1)
	}
}

// TestNewDirectoryIsDurable: numbers of a directory that was made anew are given out once that is durable, with those
// above it.
func TestNewDirectoryIsDurable(t *testing.T) {
	c := configIn(t.TempDir() + "/a/store")
	synced := map[string]bool{}
	d := driverWith(t, c, around{kernel{}, func(op, path string, call func() error) error {
		if op == "fsync" && !strings.Contains(path, "/t/") { // a version, which is renamed
			synced[path] = true
		}
		return call()
	}})
	s := &enterer{t: t, s: sessionOf(t, d)}
	for range 2 {
		s.enter()
		for dir := d.floorDir(); dir != "/"; dir = path.Dir(dir) {
			require.True(t, synced[dir], dir)
		}
		clear(synced)
		s.enter()
		require.Empty(t, synced)
		require.NoError(t, os.RemoveAll(path.Dir(c.Directory)))
		s.s = sessionOf(t, d)
	}
}

// TestEndIsRaised: an election needs more numbers than an end allows.
func TestEndIsRaised(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	d := driverWith(t, c, kernel{})
	s := &enterer{t: t, s: sessionOf(t, d)}
	token := s.enter().Token
	for range 3 * block {
		entry := s.enter()
		require.Greater(t, entry.Token, token)
		token = entry.Token
		f, err := d.numbers.floors()
		require.NoError(t, err)
		require.LessOrEqual(t, token, f.floor+block)
		require.Less(t, token, d.numbers.durable.Load())
		s.remove(entry)
	}
	d.life.Wait() // no collector raises a floor meanwhile
	f, err := d.numbers.floors()
	require.NoError(t, err)
	_, err = d.numbers.raise(f, f.end-3)
	require.NoError(t, err)
	for range 4 {
		require.Less(t, s.enter().Token, d.numbers.durable.Load())
	}
}
