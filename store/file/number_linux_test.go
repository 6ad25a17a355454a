package file

import (
	"strings"
	"testing"
	"time"

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
	c.TTL = time.Hour
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
	c.TTL = time.Hour
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

// TestNumbersOfTheNextBoot: what the last boot wrote after its floor was durable is lost, and no number is given out
// again.
func TestNumbersOfTheNextBoot(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	d := driverWith(t, c, kernel{})
	one := &enterer{t: t, s: sessionOf(t, d)}
	require.Equal(t, uint64(1), one.enter().Token, "tokens are small")
	require.NoError(t, d.Clear(soon(t), ""))
	require.Equal(t, uint64(2), one.enter().Token, "tokens go on growing when all is cleared")

	next := driverWith(t, c, kernel{})
	next.boot = "nextboot"
	require.NoError(t, next.Clear(soon(t), ""))
	two := &enterer{t: t, s: sessionOf(t, next)}
	require.Equal(t, uint64(block+1), two.enter().Token)

	volatile := driverWith(t, configIn(t.TempDir()+"/store"), kernel{})
	volatile.durable = false
	three := &enterer{t: t, s: sessionOf(t, volatile)}
	require.InDelta(t, time.Now().UnixMicro(), three.enter().Token, float64(time.Minute.Microseconds()))
}

// TestEndIsRaised: an election needs more numbers than an end allows.
func TestEndIsRaised(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	d := driverWith(t, c, kernel{})
	s := &enterer{t: t, s: sessionOf(t, d)}
	s.remove(s.enter())
	_, err := d.numbers.raise(floors{block - 3, block})
	require.NoError(t, err)
	for i := range uint64(10) {
		entry := s.enter()
		require.Equal(t, block-2+i, entry.Token)
		f, err := d.numbers.floors()
		require.NoError(t, err)
		require.Less(t, entry.Token, f.end)
		require.GreaterOrEqual(t, d.numbers.durable, f.end)
		s.remove(entry)
	}
}
