package file

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/faulty"
	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// TestOverflow: the kernel has dropped events, one of which was of a leader. The store reads everything again.
func TestOverflow(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	require.NoError(t, err)
	most, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	c := configIn(t.TempDir() + "/store")
	st, follower := openWith(t, c, kernel{}), openWith(t, c, kernel{})
	b := lead(t, st, "one")
	leads(t, follower, "one")

	noise := t.TempDir()
	s, err := one.add(noise, syscall.IN_CREATE|syscall.IN_DELETE, "", func(uint32) {})
	require.NoError(t, err)
	defer one.remove(s)
	one.reading.Lock() // nothing reads the queue
	for i := 0; i <= most; i += 2 {
		path := fmt.Sprint(noise, "/", i%7)
		require.NoError(t, kernel{}.mkdir(path))
		require.NoError(t, kernel{}.rmdir(path))
	}
	_, err = b.Acknowledge(soon(t), "two")
	require.NoError(t, err)
	one.reading.Unlock()
	leads(t, follower, "two")
}

// TestDirectoryIsRemoved: the leader is told at its next renewal, long before its deadline. A process that has only
// been in another election gets a higher token than all before. Followers learn of it.
func TestDirectoryIsRemoved(t *testing.T) {
	t.Parallel()
	meter := stall.Watch(t)
	c := configWith(t.TempDir()+"/store", 8*time.Second)
	st, other, follower := openWith(t, c, kernel{}), openWith(t, c, kernel{}), openWith(t, c, kernel{})
	_, err := other.Cast(soon(t), "another", "two")
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, lead(t, st, "one").Withdraw(soon(t)))
	}
	b := lead(t, st, "one")
	leads(t, follower, "one")
	began := time.Now()
	require.NoError(t, os.Rename(c.Directory, c.Directory+".removed")) // what is removed piece by piece is made again
	<-b.Lost()
	require.ErrorIs(t, b.Err(), store.ErrLost)
	require.Less(t, time.Since(began), c.TTL*3/4+meter.Stalled(), "%v", meter)
	require.NoError(t, st.Close())
	next := lead(t, other, "two")
	require.Greater(t, next.Token(), b.Token())
	leads(t, follower, "two")
}

// TestFullDisk: a leader goes on and can resign. Calls that need space fail, and say so.
func TestFullDisk(t *testing.T) {
	waits(t)
	needRoot(t)
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip("NOT TESTED: a small file system can't be mounted:", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	c := configWith(dir+"/store", 4*time.Second)
	st, other := openWith(t, c, kernel{}), openWith(t, c, kernel{})
	b := lead(t, st, "one")
	next, err := other.Cast(soon(t), "e", "two")
	require.NoError(t, err)

	require.ErrorIs(t, os.WriteFile(dir+"/filler", make([]byte, 1<<20), 0o600), syscall.ENOSPC)
	for i := 0; ; i++ { // directories, which use memory in another way
		if err := os.WriteFile(fmt.Sprint(dir, "/", i), []byte("x"), 0o600); err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			break
		}
	}
	_, err = b.Acknowledge(soon(t), "three")
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "no space left")
	_, err = other.Cast(soon(t), "e", "four")
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "no space left")
	renewed := b.Lease().Last().Changed
	<-renewed
	require.NoError(t, b.Err(), "it still leads")
	require.NoError(t, b.Withdraw(soon(t)))
	require.NoError(t, next.Wait(soon(t)))
	require.NoError(t, os.Remove(dir+"/filler"))
	_, err = next.Acknowledge(soon(t), "two")
	require.NoError(t, err)
}

// TestFrozen: a process is stopped for longer than its TTL, and resumed. Its errors say that the session has ended, and
// what it does next happens in a new session.
func TestFrozen(t *testing.T) {
	waits(t)
	c := configWith(t.TempDir()+"/store", 4*time.Second)
	line, frozen := faulty.New(), c
	frozen.faults = line
	st := openWith(t, frozen, kernel{})
	b := lead(t, st, "one")
	next, err := openWith(t, c, kernel{}).Cast(soon(t), "e", "two")
	require.NoError(t, err)
	line.Cut()
	require.NoError(t, next.Wait(soon(t)))
	require.Zero(t, b.Lease().Remaining())
	line.Heal()
	<-b.Lost()
	require.ErrorContains(t, b.Err(), "session has ended")
	again, err := st.Cast(soon(t), "e", "three")
	require.NoError(t, err)
	require.NoError(t, again.Err())
	require.NoError(t, next.Withdraw(soon(t)))
	require.NoError(t, again.Wait(soon(t)))
}

// TestErrorsAreOfOneKind: a known outcome is not reported as unknown, nor the other way round.
func TestErrorsAreOfOneKind(t *testing.T) {
	d := driverWith(t, configIn(t.TempDir()+"/store"), kernel{})
	s := &enterer{t: t, s: sessionOf(t, d)}
	entry := s.enter()
	s.remove(entry)
	_, err := s.s.Acknowledge(soon(t), entry, "value")
	require.ErrorIs(t, err, engine.ErrGone)
	require.NotErrorIs(t, err, store.ErrUnavailable)
	require.NoError(t, s.s.End(soon(t), nil))
	_, err = s.s.Acknowledge(soon(t), entry, "value")
	require.ErrorIs(t, err, engine.ErrOver)
	require.NotErrorIs(t, err, store.ErrUnavailable)
	err = explain(fmt.Errorf("%w: %w", store.ErrUnknownOutcome, syscall.EIO))
	require.NotErrorIs(t, err, store.ErrUnavailable)
	require.ErrorIs(t, explain(syscall.EIO), store.ErrUnavailable)
	require.ErrorIs(t, explain(syscall.EACCES), store.ErrDenied)
}
