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

// TestOnDisk does the same on the disk of this machine, where the other tests make no files.
func TestOnDisk(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp(realDisk, "file")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	c := configIn(dir + "/store")
	killed := newDying(-1)
	d, err := newDriverWith(c, killed, nil)
	require.NoError(t, err)
	token := live(t, d)
	require.NotZero(t, token)
	require.NoError(t, d.Close())
	killed.die()
	st, err := Open(c)
	require.NoError(t, err)
	b := lead(t, st, "second")
	require.Greater(t, b.Token(), token)
	leads(t, st, "second")
	require.NoError(t, st.Close())
}
