package file

import (
	"log/slog"
	"os"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// live does everything that a process does in an election, until it can't go on, and returns the highest token.
func live(t *testing.T, d *driver) (token uint64) {
	s, _, err := d.Open(soon(t))
	if err != nil {
		return 0
	}
	defer func() {
		_ = s.End(soon(t), nil)
		d.life.Wait() // let later work be done
	}()
	for turn := range uint64(3) {
		e, err := s.Enter(soon(t), "a/b", engine.Nonce{Name: unique(), Turn: turn + 1}, "first")
		if err != nil {
			return token
		}
		token, e.Election = e.Token, "a/b"
		if _, err := s.Acknowledge(soon(t), e, "first"); err != nil {
			return token
		}
		d.life.Wait() // the link is there
		if s.(*session).renew() != nil || d.RequestResignation(soon(t), "a/b", token) != nil {
			return token
		}
		if err := s.Remove(soon(t), engine.Removal{Entry: e}); err != nil {
			return token
		}
	}
	d.collect("a/b")
	return token
}

// TestCrashBetweenCalls: a process is killed after each of its calls in turn. The next one leads at once, with a higher
// token. Only its ballot stands, and only its value is shown.
func TestCrashBetweenCalls(t *testing.T) {
	t.Parallel()
	for n, whole := 0, false; !whole; n++ {
		c := configIn(t.TempDir() + "/store")
		calls := newDying(n)
		d := driverWith(t, c, calls)
		token := live(t, d)
		whole = calls.made < n // it has not been killed
		calls.die()

		c.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
		st := openWith(t, c, kernel{})
		b, err := st.Cast(soon(t), "a/b", "second")
		require.NoError(t, err, "killed after %d calls", n)
		require.NoError(t, b.Wait(soon(t)))
		require.Greater(t, b.Token(), token, "killed after %d calls", n)
		_, err = b.Acknowledge(soon(t), "second")
		require.NoError(t, err)
		list, err := st.Ballots(soon(t), "a/b")
		require.NoError(t, err)
		require.Len(t, list, 1, "killed after %d calls", n)
		storetest.Eventually(t, func() bool {
			value, err := os.ReadFile(string(d.dirOf("a/b").leader()))
			return err == nil && string(value) == "second"
		}, "the link shows the next, killed after %d calls", n)
		require.Less(t, n, 1000)
	}
}

// TestShown: the link shows the value of the acknowledged leader byte by byte, and points nowhere once that has gone.
func TestShown(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	st := openWith(t, c, kernel{})
	path := c.Directory + "/e/e/_leader"
	shows := func(value string) {
		t.Helper()
		storetest.Eventually(t, func() bool {
			text, err := os.ReadFile(path)
			return err == nil && string(text) == value
		}, "the link shows %q", value)
	}
	_, err := os.ReadFile(path)
	require.ErrorIs(t, err, os.ErrNotExist)
	b, err := st.Cast(soon(t), "e", "cast")
	require.NoError(t, err)
	require.NoError(t, b.Wait(soon(t)))
	_, err = os.ReadFile(path)
	require.ErrorIs(t, err, os.ErrNotExist, "it is not acknowledged")
	for _, value := range []string{"one", "\x00two\n", ""} {
		_, err = b.Acknowledge(soon(t), value)
		require.NoError(t, err)
		shows(value)
	}
	require.NoError(t, b.Withdraw(soon(t)))
	_, err = os.ReadFile(path)
	require.ErrorIs(t, err, os.ErrNotExist, "it has been withdrawn")
	lead(t, st, "three")
	shows("three")
}

// TestShownAfterACrash: a follower, or the next in line, notices the end of the leader's process and withdraws its
// ballot.
func TestShownAfterACrash(t *testing.T) {
	for _, waits := range []bool{false, true} {
		c := configIn(t.TempDir() + "/store")
		calls := newDying(-1)
		d := driverWith(t, c, calls)
		s := &enterer{t: t, s: sessionOf(t, d)}
		_, err := s.s.Acknowledge(soon(t), s.enter(), "first")
		require.NoError(t, err)
		d.life.Wait()
		text, err := os.ReadFile(c.Directory + "/e/e/_leader")
		require.NoError(t, err)
		require.Equal(t, "first", string(text))

		st := openWith(t, c, kernel{})
		leads(t, st, "first")
		if waits {
			b, err := st.Cast(soon(t), "e", "second")
			require.NoError(t, err)
			calls.die()
			require.NoError(t, b.Wait(soon(t)))
		} else {
			calls.die()
			leads(t, st, "")
		}
		storetest.Eventually(t, func() bool {
			_, err := os.ReadFile(c.Directory + "/e/e/_leader")
			return os.IsNotExist(err)
		}, "the link points nowhere")
	}
}

// TestShownLate: a process that was stopped before it set the link sets it when another one leads, and then corrects
// it.
func TestShownLate(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	var before func()
	d := driverWith(t, c, hooked{ops: kernel{}, beforeRename: func(_, to string) {
		if do := before; do != nil && to == c.Directory+"/e/e/_leader" {
			before = nil
			do()
		}
	}})
	st := openWith(t, c, kernel{})
	s := sessionOf(t, d)
	before = func() { // the process is stopped, its session ends, and another one leads
		require.NoError(t, s.(*session).remove())
		lead(t, st, "second")
		storetest.Eventually(t, func() bool {
			text, err := os.ReadFile(c.Directory + "/e/e/_leader")
			return err == nil && string(text) == "second"
		}, "the link shows the second")
	}
	e, err := s.Enter(soon(t), "e", engine.Nonce{Name: unique(), Turn: 1}, "first")
	require.NoError(t, err)
	_, _ = s.Acknowledge(soon(t), e, "first")
	d.life.Wait()
	text, err := os.ReadFile(c.Directory + "/e/e/_leader")
	require.NoError(t, err)
	require.Equal(t, "second", string(text))
}

// TestLeaderWhileItAcknowledges: the leader acknowledges twice between a listing of the acknowledgements and the
// reading of one, which is removed meanwhile. There is a leader all the time.
func TestLeaderWhileItAcknowledges(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	b := lead(t, openWith(t, c, kernel{}), "one")
	slow := false
	d := driverWith(t, c, hooked{ops: kernel{}, beforeReadlink: func(string) {
		if !slow {
			slow = true
			for _, value := range []string{"two", "three"} {
				_, err := b.Acknowledge(soon(t), value)
				require.NoError(t, err)
			}
		}
	}})
	var told engine.News
	w, err := d.WatchLeader(soon(t), "e", func(n engine.News) {
		if n.State != nil {
			told = n
		}
	})
	require.NoError(t, err)
	w.Stop()
	require.True(t, slow)
	require.Equal(t, "three", told.State.Leader.Value)
}
