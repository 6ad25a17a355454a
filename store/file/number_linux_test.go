package file

import (
	"context"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

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

// TestLateTicketIsVoid: a process is stopped between finding a free number and taking it. Meanwhile all tickets up to
// there are collected, so that its number is free. The second read of the floor finds that.
func TestLateTicketIsVoid(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	d := driverWith(t, c, kernel{})
	other := &enterer{t: t, s: sessionOf(t, d)}
	other.remove(other.enter())
	var leader engine.Entry
	late := false
	h := beforeCalls(func(op, path string) {
		if op != "symlink" || !strings.Contains(path, "/_q/") || late {
			return
		}
		late = true
		for range 5 {
			other.remove(other.enter())
		}
		leader = other.enter()
		require.Empty(t, leader.Place.Nearest, "it leads")
		require.NoError(t, d.dirOf("e").collect(d, d.dirOf("e").queue()))
		there, err := kernel{}.exists(path)
		require.NoError(t, err)
		require.False(t, there, "the number that the other process has found is free again")
	})
	slow := &enterer{t: t, s: sessionOf(t, driverWith(t, c, h))}
	entry := slow.enter()
	require.True(t, late)
	require.Greater(t, entry.Token, leader.Token)
	require.Equal(t, leader.Key, entry.Place.Nearest)
	list, err := d.Ballots(soon(t), "e")
	require.NoError(t, err)
	require.Len(t, list, 2)
}

// TestVoidNumberRaisesNoFloor: the number of a new election is void, since another election has begun meanwhile. The next
// try makes no number of others void, so that many processes can begin elections at once.
func TestVoidNumberRaisesNoFloor(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	d := driverWith(t, c, kernel{})
	other := sessionOf(t, d)
	var floor uint64
	slow := &enterer{t: t, s: sessionOf(t, driverWith(t, c, beforeCalls(func(op, path string) {
		if op != "symlink" || !strings.Contains(path, "/_q/") || floor > 0 {
			return
		}
		_, err := other.Enter(soon(t), "another", engine.Nonce{Name: unique(), Turn: 1}, "value")
		require.NoError(t, err)
		f, err := d.numbers.floors()
		require.NoError(t, err)
		floor = f.floor
	})))}
	entry := slow.enter()
	require.Greater(t, entry.Token, floor)
	f, err := d.numbers.floors()
	require.NoError(t, err)
	require.Equal(t, floor, f.floor)
	tickets, err := d.dirOf("e").numbers(d, d.dirOf("e").queue())
	require.NoError(t, err)
	require.Len(t, tickets, 2)
	require.Equal(t, entry.Token, tickets[1], "the void one is below, and stays until it is collected")
	d.collect("e")
	tickets, err = d.dirOf("e").numbers(d, d.dirOf("e").queue())
	require.NoError(t, err)
	require.Equal(t, []uint64{entry.Token}, tickets)
	names, err := d.ops.list(d.dirOf("e").ballots())
	require.NoError(t, err)
	names = slices.DeleteFunc(names, func(name string) bool { return name[0] == '~' })
	require.Len(t, names, 1, "the ballot of the void one is withdrawn: others might have seen it, and would wait for it")
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

// TestOldFloorsGoWhenOthersAreDurable: floors are removed when those that replace them are durable, and the highest end
// stays, also if its floor is low.
func TestOldFloorsGoWhenOthersAreDurable(t *testing.T) {
	var calls []string // those that concern floors
	c := configIn(t.TempDir() + "/store")
	d := driverWith(t, c, around{kernel{}, func(op, path string, call func() error) error {
		if strings.HasPrefix(path, c.Directory+"/f") && op != "readdir" && op != "lstat" && op != "chmod" {
			calls = append(calls, op)
		}
		return call()
	}})
	require.NoError(t, d.make())
	calls = nil
	const end = 1 << 40
	for floor := range uint64(10) {
		f := floors{floor: 1000 + floor, end: end - floor}
		require.NoError(t, d.ops.symlink("-", d.floorPath(f)))
	}
	d.forgetFloors()
	last, first := slices.Index(calls, "fsync"), slices.Index(calls, "unlink")
	require.Equal(t, 10, last, "%v", calls)
	require.Equal(t, -1, first, "each of those that are lower has a higher end: %v", calls)

	require.NoError(t, d.ops.symlink("-", d.floorPath(floors{floor: 2000, end: end})))
	calls = nil
	d.forgetFloors()
	require.Equal(t, "fsync", calls[0], "%v", calls)
	require.Equal(t, "unlink", calls[1], "%v", calls)
	f, err := d.ops.list(d.floorDir())
	require.NoError(t, err)
	require.Len(t, f, 4, "a listing that is under way finds one of them")
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

// TestOpenWhileAnEndIsMadeDurable: a caller that gives up returns, also while fsync hangs for another one. The session is not
// open before the numbers are durable, so that no ballot waits for that.
func TestOpenWhileAnEndIsMadeDurable(t *testing.T) {
	disk := newStuck()
	d, err := newDriverWith(configIn(t.TempDir()+"/store"), disk, durably)
	require.NoError(t, err)
	t.Cleanup(func() { disk.end(); require.NoError(t, d.Close()) })
	disk.match.Store(&match{op: "fsync", path: "/f"})
	ctx, cancel := context.WithCancel(t.Context())
	opened := make(chan error, 1)
	go func() { // opened says when it has returned
		_, _, err := d.Open(ctx)
		opened <- err
	}()
	<-disk.hangs
	sessions, err := os.ReadDir(d.root() + "/s")
	require.NoError(t, err)
	require.Empty(t, sessions)
	cancel()
	require.ErrorIs(t, storetest.Receive(t, opened, "Open returns with its context"), store.ErrUnknownOutcome)
}

// TestDirectoryAboveCantBeSynced: an error of the disk counts there too, since the path to the store might be lost; one of
// permission, or of a file system that syncs no directories, does not.
func TestDirectoryAboveCantBeSynced(t *testing.T) {
	for errno, counts := range map[syscall.Errno]bool{syscall.EIO: true, syscall.EACCES: false, syscall.EINVAL: false} {
		c := configIn(t.TempDir() + "/store")
		above := path.Dir(c.Directory)
		disk := around{kernel{}, func(op, file string, call func() error) error {
			if op == "fsync" && file == above {
				return failed(op, file, errno)
			}
			return call()
		}}
		d, err := newDriverWith(c, disk, durably)
		require.NoError(t, err)
		_, _, err = d.Open(soon(t))
		require.Equal(t, counts, err != nil, "%v: %v", errno, err)
		require.NoError(t, d.Close())
	}
}
