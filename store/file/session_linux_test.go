package file

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/faulty"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

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

// TestSessionFile: the ballot of a process that has died stands until its deadline, and no longer, while another
// process has the session's file open.
func TestSessionFile(t *testing.T) {
	t.Parallel()
	for _, closed := range []bool{true, false} {
		c := configIn(t.TempDir() + "/store")
		if !closed {
			c = configWith(c.Directory, 3*time.Second)
		}
		calls := newDying(-1)
		st := openWith(t, c, calls)
		b := lead(t, st, "first")
		file, err := b.SessionFile()
		require.NoError(t, err)
		defer file.Close()
		calls.die()
		renewed := b.Lease().Last().Sent

		next, err := openWith(t, c, kernel{}).Cast(soon(t), "e", "second")
		require.NoError(t, err)
		if closed {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			require.ErrorIs(t, next.Wait(ctx), context.DeadlineExceeded)
			cancel()
			require.NoError(t, file.Close())
			require.NoError(t, next.Wait(soon(t)))
			continue
		}
		require.NoError(t, next.Wait(soon(t)))
		require.GreaterOrEqual(t, time.Since(renewed), c.TTL, "a ballot whose session's file is open was passed early")
	}
}

// TestSessionFileOfAClosedStore: a session that is closed ends at once, even if a process has its file open.
func TestSessionFileOfAClosedStore(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	st := openWith(t, c, kernel{})
	b := lead(t, st, "first")
	file, err := b.SessionFile()
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, st.Close())
	lead(t, openWith(t, c, kernel{}), "second")
	_, err = b.SessionFile()
	require.ErrorIs(t, err, engine.ErrOver)
	require.ErrorIs(t, err, store.ErrLost)
}

// TestRenewalIsTriedAgainSoon: four tries in a row fail. If tries were a quarter of the TTL apart, there would be no fifth
// before the deadline.
func TestRenewalIsTriedAgainSoon(t *testing.T) {
	waits(t)
	var fail atomic.Int32
	c := configWith(t.TempDir()+"/store", 12*time.Second) // of which half is left after the four, for a slow machine
	st := openWith(t, c, failing(syscall.EIO, func(op, path string) bool {
		return op == "rename" && strings.Contains(path, "/s/") && fail.Add(-1) >= 0
	}))
	b := lead(t, st, "one")
	<-b.Lease().Last().Changed
	renewed := b.Lease().Last()
	fail.Store(4)
	<-renewed.Changed
	require.NoError(t, b.Err())
	require.True(t, b.Lease().Last().Confirmed.After(renewed.Confirmed))
	require.Negative(t, fail.Load(), "a renewal has failed four times")
}

// TestLateRenewalDoesNotCount: the deadline passes before a renewal, or during it. Processes that may only read count the
// session as over by then, so it must not come back.
func TestLateRenewalDoesNotCount(t *testing.T) {
	for name, during := range map[string]bool{"before": false, "during": true} {
		t.Run(name, func(t *testing.T) {
			var late atomic.Int64 // by how much the clock is ahead
			var renames atomic.Int32
			c := configIn(t.TempDir() + "/store")
			d := driverWith(t, c, around{kernel{}, func(op, path string, call func() error) error {
				if op == "rename" && strings.HasPrefix(path, c.Directory+"/s/") {
					renames.Add(1)
					defer late.Store(int64(c.TTL))
				}
				return call()
			}})
			d.clock = func() time.Duration { return bootTime() + time.Duration(late.Load()) }
			s := sessionOf(t, d).(*session)
			if !during {
				late.Store(int64(c.TTL))
			}
			require.ErrorIs(t, s.renew(), engine.ErrOver)
			require.Equal(t, during, renames.Load() > 0)
			require.NoDirExists(t, d.sessionDir(s.id))
		})
	}
}

// TestAbandonedSessionIsNotMade: a session whose caller has left before the request is carried out.
func TestAbandonedSessionIsNotMade(t *testing.T) {
	d := driverWith(t, configIn(t.TempDir()+"/store"), kernel{})
	require.NoError(t, d.make())
	s := &session{driver: d, id: unique(), fd: -1, ended: make(chan struct{})}
	require.NoError(t, s.remove())
	require.ErrorIs(t, s.make(), engine.ErrOver)
	require.NoDirExists(t, d.sessionDir(s.id))
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
