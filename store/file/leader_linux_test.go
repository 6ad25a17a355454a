package file

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// TestShown: the link shows the value of the acknowledged leader byte by byte, and points nowhere once that has gone.
func TestShown(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	st := openWith(t, c, kernel{})
	path := c.Directory + "/e/e/_leader"
	shows := func(value string) {
		t.Helper()
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, value, string(text))
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
	d := driverWith(t, c, beforeCalls(func(op, path string) {
		if op == "rename" && strings.HasSuffix(path, "/e/e/_leader") && before != nil {
			do := before
			before = nil
			do()
		}
	}))
	st := openWith(t, c, kernel{})
	s := sessionOf(t, d)
	before = func() { // the process is stopped, its session ends, and another one leads
		require.NoError(t, s.(*session).remove())
		lead(t, st, "second")
	}
	e, err := s.Enter(soon(t), "e", engine.Nonce{Name: unique(), Turn: 1}, "first")
	require.NoError(t, err)
	_, err = s.Acknowledge(soon(t), e, "first")
	require.ErrorIs(t, err, engine.ErrOver)
	require.Nil(t, before)
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
	d := driverWith(t, c, beforeCalls(func(op, _ string) {
		if op == "readlink" && !slow {
			slow = true
			for _, value := range []string{"two", "three"} {
				_, err := b.Acknowledge(soon(t), value)
				require.NoError(t, err)
			}
		}
	}))
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

// TestLastAcknowledgementStays: until there are two later ones. A listing that is under way while an acknowledgement
// replaces another might show neither, and no leader.
func TestLastAcknowledgementStays(t *testing.T) {
	d := driverWith(t, configIn(t.TempDir()+"/store"), kernel{})
	s := &enterer{t: t, s: sessionOf(t, d)}
	e := s.enter()
	var all []uint64
	for range 4 {
		revision, err := s.s.Acknowledge(soon(t), e, "value")
		require.NoError(t, err)
		all = append(all, revision)
		names, err := d.ops.list(d.dirOf("e").acks())
		require.NoError(t, err)
		require.Equal(t, all[max(len(all)-2, 0):], numbered(names))
	}
}

// TestFailedAcknowledgementsLeaveNothing: the link can't be set for some time.
func TestFailedAcknowledgementsLeaveNothing(t *testing.T) {
	var until atomic.Int64
	c := configIn(t.TempDir() + "/store")
	d := driverWith(t, c, failing(syscall.EIO, func(op, path string) bool {
		return op == "rename" && strings.Contains(path, "/t/") && until.Load() > 0
	}))
	s := &enterer{t: t, s: sessionOf(t, d)}
	e := s.enter()
	_, err := s.s.Acknowledge(soon(t), e, "first")
	require.NoError(t, err)
	d.life.Wait()
	before := files(t, string(d.dirOf("e")))
	until.Store(1)
	for range 5 {
		_, err := s.s.Acknowledge(soon(t), e, "second")
		require.ErrorIs(t, err, store.ErrUnavailable)
	}
	require.Equal(t, before, files(t, string(d.dirOf("e"))))
	until.Store(0)
	revision, err := s.s.Acknowledge(soon(t), e, "third")
	require.NoError(t, err)
	require.Greater(t, revision, uint64(1))
}

// TestLateAcknowledgementIsRefused: an acknowledgement waits for one before it, and its caller has left when its turn comes.
// It might replace a value that was acknowledged after it.
func TestLateAcknowledgementIsRefused(t *testing.T) {
	disk := newStuck()
	d := driverWith(t, configIn(t.TempDir()+"/store"), disk)
	s := &enterer{t: t, s: sessionOf(t, d)}
	e := s.enter()
	disk.match.Store(&match{op: "write", path: "/_b/"})
	first := make(chan error, 1)
	go func() { // first says when it has returned
		_, err := s.s.Acknowledge(soon(t), e, "first")
		first <- err
	}()
	<-disk.hangs
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := s.s.Acknowledge(ctx, e, "late")
	require.ErrorIs(t, err, store.ErrUnknownOutcome)
	disk.end()
	require.NoError(t, <-first)
	d.life.Stop()
	d.life.Wait() // for the late one
	value, err := os.ReadFile(d.dirOf("e").leader())
	require.NoError(t, err)
	require.Equal(t, "first", string(value))
}

// TestAcknowledgementOfAWithdrawnBallot: the ballot is withdrawn while it is acknowledged. That is no success.
func TestAcknowledgementOfAWithdrawnBallot(t *testing.T) {
	var d *driver
	var own string
	d = driverWith(t, configIn(t.TempDir()+"/store"), beforeCalls(func(op, path string) {
		if op == "rename" && strings.Contains(path, "/_a/") {
			require.NoError(t, d.dirOf("e").withdraw(d, own))
		}
	}))
	s := &enterer{t: t, s: sessionOf(t, d)}
	e := s.enter()
	_, _, own = splitKey(e.Key)
	_, err := s.s.Acknowledge(soon(t), e, "value")
	require.ErrorIs(t, err, engine.ErrGone)
}
