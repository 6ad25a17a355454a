package file

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// stuck is a disk on which one call hangs: the first that matches after set.
type stuck struct {
	around
	match atomic.Pointer[match]
	tidy  chan struct{} // closed when the remains of other processes have been removed, which no candidate waits for
	hangs chan struct{} // closed when it hangs
	ends  chan struct{} // end closes it
	end   func()        // ends it
	made  atomic.Int64  // how many calls of list were made
}

// match is a call of which the path contains a text. If after is set, it hangs when it has been carried out.
type match struct {
	op, path string
	after    bool
}

func newStuck() *stuck {
	s := &stuck{tidy: make(chan struct{}), hangs: make(chan struct{}), ends: make(chan struct{})}
	s.end = sync.OnceFunc(func() { close(s.ends) })
	tidied := sync.OnceFunc(func() { close(s.tidy) })
	s.around = around{kernel{}, func(op, path string, call func() error) error {
		if op == "readdir" {
			s.made.Add(1)
			if strings.HasSuffix(path, "/t") { // the last call of tidy
				defer tidied()
			}
		}
		s.at(op, path, false)
		defer s.at(op, path, true)
		return call()
	}}
	return s
}

// at is called before, or after, each call.
func (s *stuck) at(op, path string, after bool) {
	m := s.match.Load()
	if m != nil && m.op == op && m.after == after && strings.Contains(path, m.path) && s.match.CompareAndSwap(m, nil) {
		close(s.hangs)
		<-s.ends
	}
}

// trial is a store with a call that hangs, and one whose candidates wait.
type trial struct {
	t          *testing.T
	disk       *stuck
	warnings   *output
	one, other *Store
	next       store.Ballot // of the other; others wait in front of it
}

// newTrial begins a trial in which a call hangs.
func newTrial(t *testing.T) *trial {
	tr := &trial{t: t, disk: newStuck(), warnings: &output{}}
	c := configWith(t.TempDir()+"/store", 8*time.Second) // in which a busy machine renews sessions
	tr.other = openWith(t, c, kernel{})
	c.Logger = slog.New(slog.NewTextHandler(tr.warnings, &slog.HandlerOptions{Level: slog.LevelWarn}))
	tr.one = openWith(t, c, tr.disk)
	t.Cleanup(tr.disk.end) // before the stores are closed
	return tr
}

func (tr *trial) campaign(st *Store, value string) store.Ballot {
	tr.t.Helper()
	b, err := st.Cast(soon(tr.t), "e", value)
	require.NoError(tr.t, err)
	return b
}

// hang makes the next call hang that matches.
func (tr *trial) hang(m match) { tr.disk.match.Store(&m) }

// givenUp requires that the other store leads while the call hangs, and that the first store takes part again when the call
// has ended.
func (tr *trial) givenUp() {
	t := tr.t
	t.Helper()
	<-tr.disk.hangs
	require.NoError(t, tr.next.Wait(soon(t)))
	_, err := tr.next.Acknowledge(soon(t), "other")
	require.NoError(t, err)
	text := tr.warnings.String()
	require.LessOrEqual(t, strings.Count(text, "while a system call hangs"), 1, text)

	tr.disk.end()
	again := tr.campaign(tr.one, "again")
	require.NoError(t, tr.next.Withdraw(soon(t)))
	require.NoError(t, again.Wait(soon(t)))
}

// TestCallHangs: a call of one store hangs, or is a renewal. Its ballot blocks the others for two TTLs at most, and it takes
// part again when the call has ended. All hang at the same time, since that takes two TTLs.
func TestCallHangs(t *testing.T) {
	waits(t)
	var trials []*trial
	calls := make(chan error, 10) // their outcomes do not matter
	add := func() *trial {
		trials = append(trials, newTrial(t))
		return trials[len(trials)-1]
	}
	casting := add()
	casting.hang(match{op: "symlink", path: "/_q/", after: true}) // the ticket has been made
	go func() {                                                   // calls says when it has returned
		b, err := casting.one.Cast(t.Context(), "e", "one")
		if err == nil { // in the next session
			err = b.Withdraw(t.Context())
		}
		calls <- err
	}()
	<-casting.disk.hangs
	casting.next = casting.campaign(casting.other, "other")

	resigning := add()
	b := resigning.campaign(resigning.one, "one")
	require.NoError(t, b.Wait(soon(t)))
	resigning.next = resigning.campaign(resigning.other, "other")
	resigning.hang(match{op: "rename", path: "/_b/"})
	go func() { calls <- b.Withdraw(t.Context()) }() // calls says when it has returned

	acknowledging := add()
	leader := acknowledging.campaign(acknowledging.one, "one")
	require.NoError(t, leader.Wait(soon(t)))
	acknowledging.next = acknowledging.campaign(acknowledging.other, "other")
	acknowledging.hang(match{op: "rename", path: "/t/"})
	go func() { // calls says when it has returned
		_, err := leader.Acknowledge(t.Context(), "one")
		calls <- err
	}()

	renewing := add()
	renewing.campaign(renewing.one, "one")
	renewing.next = renewing.campaign(renewing.other, "other")
	renewing.hang(match{op: "rename", path: "/s/"})

	for _, m := range []match{ // to find out what is ahead
		{op: "readdir", path: "/_q"}, {op: "readlink", path: "/_q/"}, {op: "lstat", path: "/_b/"}, {op: "flock", path: "/s/"},
	} {
		waiting := add()
		first, second := waiting.campaign(waiting.other, "first"), waiting.campaign(waiting.other, "second")
		b := waiting.campaign(waiting.one, "one")
		waiting.next = waiting.campaign(waiting.other, "other")
		go func() { calls <- b.Wait(t.Context()) }() // calls says when it has returned
		<-waiting.disk.tidy                          // which looks at sessions, too
		waiting.hang(m)
		require.NoError(t, second.Withdraw(soon(t)))
		<-waiting.disk.hangs
		require.NoError(t, first.Withdraw(soon(t)))
	}
	for _, tr := range trials {
		tr.givenUp()
	}
	for range len(trials) - 1 {
		<-calls
	}
}

// TestRequestsWaitForAHang: while a call hangs no other request is begun, so that goroutines do not pile up.
func TestRequestsWaitForAHang(t *testing.T) {
	disk := newStuck()
	d := driverWith(t, configIn(t.TempDir()+"/store"), disk)
	d.asked.limit = 100 * time.Millisecond
	disk.match.Store(&match{op: "readdir", path: "/_q"})
	listed := make(chan error, 1)
	go func() { // the test waits for it
		_, err := d.Ballots(t.Context(), "e")
		listed <- err
	}()
	<-disk.hangs
	storetest.Eventually(t, func() bool { return d.asked.hung() != nil }, "the call counts as one that hangs")
	made := disk.made.Load()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		_, err := d.Ballots(ended, "e")
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.ErrorContains(t, err, "has not returned for")
		_, _, err = d.Open(ended)
		require.ErrorIs(t, err, store.ErrUnavailable)
	}
	require.Equal(t, made, disk.made.Load())
	disk.end()
	require.NoError(t, <-listed)
	_, err := d.Ballots(soon(t), "e")
	require.NoError(t, err)
}
