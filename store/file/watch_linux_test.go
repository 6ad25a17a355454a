package file

import (
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

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

// TestBallotGoesWithItsOwnSession: the watch of the leader checks the ballots of two sessions, if the leader changes
// while it reads. When the first session ends, its ballot is withdrawn, and the other session's is not.
func TestBallotGoesWithItsOwnSession(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	of := driverWith(t, c, kernel{})
	first, second := &enterer{t: t, s: sessionOf(t, of)}, &enterer{t: t, s: sessionOf(t, driverWith(t, c, kernel{}))}
	old, next := first.enter(), second.enter()
	d := driverWith(t, c, kernel{})
	told := make(chan struct{}, 1)
	w := d.newWatch(func(n engine.News) {
		if n.Over {
			told <- struct{}{}
		}
	})
	for _, e := range []engine.Entry{old, next} {
		_, _, name := splitKey(e.Key)
		over, err := w.session(d.dirOf("e"), name)
		require.NoError(t, err)
		require.False(t, over)
	}
	w.tells(engine.State{})

	require.NoError(t, first.s.(*session).remove()) // its process has ended: nothing else is removed
	<-told
	storetest.Eventually(t, func() bool { return !stands(t, d, old) || !stands(t, d, next) }, "a ballot is withdrawn")
	require.True(t, stands(t, d, next), "the ballot of another session was withdrawn")
}

// stands reports whether the ballot of an entry has its directory.
func stands(t *testing.T, d *driver, e engine.Entry) bool {
	t.Helper()
	_, _, name := splitKey(e.Key)
	there, err := d.ops.exists(d.dirOf("e").ballot(name))
	require.NoError(t, err)
	return there
}

// TestEndOfASessionIsToldInOrder: an operator removes a ballot, and then the session of the one ahead ends. The owner is
// told of its own ballot first, or it would lead with a ballot that has gone.
func TestEndOfASessionIsToldInOrder(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	other, d := driverWith(t, c, kernel{}), driverWith(t, c, kernel{})
	ahead := &enterer{t: t, s: sessionOf(t, other)}
	ahead.enter()
	own := (&enterer{t: t, s: sessionOf(t, d)}).enter()

	var mu sync.Mutex
	var told []string
	note := func(what string) engine.Tell {
		return func(n engine.News) {
			mu.Lock()
			defer mu.Unlock()
			if n.Over || n.State != nil && n.State.Token == 0 {
				told = append(told, what)
			}
		}
	}
	for what, key := range map[string]string{"own": own.Key, "ahead": own.Place.Nearest} {
		w, err := d.WatchEntry(soon(t), key, note(what))
		require.NoError(t, err)
		defer w.Stop()
	}
	d.mu.Lock()
	m := d.monitors[ahead.s.ID()]
	d.mu.Unlock()

	one.reading.Lock() // no event is told
	_, _, name := splitKey(own.Key)
	require.NoError(t, os.Rename(d.dirOf("e").ballot(name), c.Directory+"/removed"))
	require.NoError(t, ahead.s.(*session).remove())
	checked := make(chan struct{})
	go func() { m.check(); close(checked) }() // as the deadline does
	select {
	case <-checked:
		t.Error("the end of the session was told before what had happened earlier")
	case <-time.After(50 * time.Millisecond): // it waits for what is read
	}
	one.reading.Unlock()
	<-checked
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, "own", told[0])
	require.Contains(t, told, "ahead")
}
