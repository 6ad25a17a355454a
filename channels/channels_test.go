package channels_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/channels"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

const (
	election = "database/primary"
	ttl      = 12 * time.Second
	valid    = 8 * time.Second // how long a renewal makes the lease last
)

// world is a service of its own in virtual time.
type world struct {
	*testing.T
	service *memory.Service
}

// virtual runs a test in virtual time: a sleep takes no time, and lets everything happen that is due until then.
func virtual(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(&world{t, memory.NewService()}) })
}

func (w *world) open() *memory.Store {
	w.Helper()
	st, err := memory.Open(w.service, &memory.Config{TTL: ttl})
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, st.Close()) })
	synctest.Wait()
	return st
}

func (w *world) candidate(st store.Store, value string) *channels.Candidate {
	w.Helper()
	c, err := channels.NewCandidate(st, election, value, nil)
	require.NoError(w, err)
	w.Cleanup(func() { c.Stop(); <-c.Done() })
	return c
}

// lead returns the acknowledged term of another process, which the test gives back.
func (w *world) lead(value string) *leadership.Term {
	w.Helper()
	term, err := w.candidate(w.open(), value).Campaign(context.Background())
	require.NoError(w, err)
	require.NoError(w, term.Acknowledge(context.Background()))
	return term
}

func (w *world) follower(opts *leadership.FollowerOptions) *channels.Follower {
	w.Helper()
	f, err := channels.NewFollower(w.open(), election, opts)
	require.NoError(w, err)
	w.Cleanup(func() { f.Stop(); <-f.Done() })
	return f
}

func (w *world) resign(term *leadership.Term) {
	w.Helper()
	require.NoError(w, term.Withdraw(context.Background()))
	synctest.Wait()
}

// closed checks that a channel is closed, and holds nothing more.
func closed[T any](w *world, ch <-chan T) {
	w.Helper()
	_, open := <-ch
	require.False(w, open)
}

// The channel carries false first, true on winning, false at the deadline of a lease that is not renewed, and true again; then
// false on resigning, and a last false on Stop, which closes both channels. Nothing is left then.
func TestRunForElection(t *testing.T) {
	virtual(t, func(w *world) {
		began := time.Now()
		st := w.open()
		c := w.candidate(st, "a")
		elected, errs := c.RunForElection()
		require.False(w, <-elected)
		require.True(w, <-elected)
		require.True(w, c.IsLeader())
		st.Faults().Cut()
		require.False(w, <-elected)
		require.Equal(w, valid, time.Since(began))
		st.Faults().Heal()
		require.True(w, <-elected)
		c.Resign()
		require.False(w, <-elected)
		require.True(w, <-elected)
		c.Stop()
		require.False(w, <-elected)
		closed(w, elected)
		closed(w, errs)
		queue, err := w.open().Ballots(context.Background(), election)
		require.NoError(w, err)
		require.Empty(w, queue)
	})
}

// A candidate that never leads sends no last false.
func TestRunForElectionWithoutATerm(t *testing.T) {
	virtual(t, func(w *world) {
		other := w.lead("other")
		c := w.candidate(w.open(), "a")
		elected, errs := c.RunForElection()
		require.False(w, <-elected)
		time.Sleep(10 * ttl)
		require.Empty(w, elected)
		c.Stop()
		closed(w, elected)
		closed(w, errs)
		w.resign(other)
	})
}

// Nothing waits for a reader. A true whose term is over is taken back, and a false is never left out.
func TestSlowReader(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.candidate(w.open(), "a")
		elected, _ := c.RunForElection()
		for range 3 {
			time.Sleep(ttl)
			require.True(w, c.IsLeader())
			require.Len(w, elected, 2, "false and true")
			c.Resign()
		}
		time.Sleep(ttl)
		require.False(w, <-elected)
		require.True(w, <-elected)
		c.Resign()
		time.Sleep(ttl)
		c.Stop()
		<-c.Done()
		require.False(w, <-elected)
		closed(w, elected)
	})
}

// Errors come on the second channel, the latest replacing one that was not read; a permanent one is the last. The function of
// the program's hears of the same events.
func TestErrors(t *testing.T) {
	virtual(t, func(w *world) {
		st := &failing{Store: w.open()}
		st.err.Store(&store.ErrUnavailable)
		told := 0
		opts := &leadership.CandidateOptions{Events: func(e leadership.Event) {
			if e.Kind == leadership.AttemptFailed {
				told++
			}
		}}
		c, err := channels.NewCandidate(st, election, "a", opts)
		require.NoError(w, err)
		elected, errs := c.RunForElection()
		require.ErrorIs(w, <-errs, store.ErrUnavailable)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Greater(w, told, 2)
		require.Len(w, errs, 1)
		require.NotNil(w, opts.Events, "the options are the caller's")
		st.err.Store(&store.ErrInvalid)
		for last := range errs {
			err = last
		}
		require.ErrorIs(w, err, store.ErrInvalid)
		require.False(w, <-elected)
		closed(w, elected)

		f, err := channels.NewFollower(st, election, nil)
		require.NoError(w, err)
		leaders, errs := f.FollowElection()
		require.ErrorIs(w, <-errs, store.ErrInvalid)
		closed(w, errs)
		closed(w, leaders)
	})
}

// failing is a store that refuses all.
type failing struct {
	store.Store
	err atomic.Pointer[error]
}

func (f *failing) Cast(context.Context, string, string) (store.Ballot, error) {
	return nil, *f.err.Load()
}

func (f *failing) Observe(context.Context, string, *store.Known) (store.Known, error) {
	return store.Known{}, *f.err.Load()
}

// A second call is refused, as is one of a candidate that is running or has been stopped. The first goes on.
func TestCalledTwice(t *testing.T) {
	virtual(t, func(w *world) {
		refused := func(c *channels.Candidate, want error) {
			w.Helper()
			elected, errs := c.RunForElection()
			require.ErrorIs(w, <-errs, want)
			closed(w, errs)
			for leads := range elected {
				require.False(w, leads)
			}
		}
		c := w.candidate(w.open(), "a")
		elected, _ := c.RunForElection()
		require.False(w, <-elected)
		refused(c, leadership.ErrRunning)
		require.True(w, <-elected)

		c = w.candidate(w.open(), "b")
		go c.Campaign(w.Context())
		synctest.Wait()
		refused(c, leadership.ErrRunning)
		c = w.candidate(w.open(), "c")
		c.Stop()
		refused(c, leadership.ErrStopped)

		f := w.follower(nil)
		leaders, _ := f.FollowElection()
		again, errs := f.FollowElection()
		closed(w, again)
		require.EqualError(w, <-errs, "FollowElection was called before")
		closed(w, errs)
		require.Equal(w, "a", (<-leaders).Value)
	})
}

// The leaders come in order. One that was not read is replaced by the next.
func TestFollowElection(t *testing.T) {
	virtual(t, func(w *world) {
		f := w.follower(nil)
		leaders, errs := f.FollowElection()
		require.Zero(w, <-leaders)
		a := w.lead("a")
		require.Equal(w, "a", (<-leaders).Value)
		w.resign(a)
		for i := range 3 {
			w.resign(w.lead(fmt.Sprint("unread ", i)))
		}
		b := w.lead("b")
		synctest.Wait()
		require.Equal(w, "b", (<-leaders).Value)
		w.resign(b)
		require.Zero(w, <-leaders)
		w.resign(w.lead("unread"))
		require.Empty(w, leaders, "the reader knows that there is no leader")
		f.Stop()
		closed(w, leaders)
		closed(w, errs)
	})
}
