package leadership_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// The channel sends false first, true on winning, false on losing, true when won again, and false on resigning. Stop
// closes it.
func TestEventsOfACandidate(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		c := w.candidate(st, "a", nil)
		elected, errs := c.RunForElection()
		require.False(w, <-elected)
		require.True(w, <-elected)
		require.True(w, c.IsLeader())
		require.Zero(w, w.now())

		st.Faults().Cut()
		require.False(w, <-elected)
		require.Equal(w, valid, w.now(), "lost at the deadline, without an event from the store")
		st.Faults().Heal()
		require.True(w, <-elected, "it stands again by itself")

		c.Resign()
		require.False(w, <-elected)
		require.True(w, <-elected)

		halt(c)
		require.False(w, <-elected, "one who led has been sent a final false")
		requireClosed(w, elected)
		requireClosed(w, errs)
		require.False(w, c.IsLeader())
		require.Empty(w, w.ballots())
	})
}

func TestEventsOfACandidateThatNeverLeads(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "other")
		c := w.candidate(w.open(), "a", nil)
		elected, errs := c.RunForElection()
		require.False(w, <-elected)
		w.at(10 * ttl)
		require.True(w, pending(elected))
		halt(c)
		requireClosed(w, elected, "no final false: it never led")
		requireClosed(w, errs)
	})
}

// Everything works if no one reads the channels. A true that was not read before the term ended is taken back.
func TestEventsCoalesce(t *testing.T) {
	virtual(t, func(w *world) {
		a, b := w.candidate(w.open(), "a", nil), w.candidate(w.open(), "b", nil)
		ofA, _ := a.RunForElection()
		synctest.Wait()
		ofB, _ := b.RunForElection()
		synctest.Wait()
		for range 10 {
			w.until(a.IsLeader)
			w.until(func() bool { return len(w.ballots()) == 2 })
			a.Resign()
			w.until(b.IsLeader)
			w.until(func() bool { return len(w.ballots()) == 2 })
			b.Resign()
		}
		w.until(a.IsLeader)
		require.False(w, <-ofA)
		require.True(w, <-ofA)
		require.True(w, pending(ofA), "what is true now is the last")
		require.False(w, <-ofB)
		require.True(w, pending(ofB))

		w.until(func() bool { return len(w.ballots()) == 2 })
		a.Resign()
		w.until(b.IsLeader)
		halt(a)
		halt(b)
		require.False(w, <-ofA)
		requireClosed(w, ofA)
		require.False(w, <-ofB, "no true is read from a candidate that has stopped")
		requireClosed(w, ofB)
	})
}

// A reader that received true always receives the false after it, even if the candidate leads again by then.
func TestEventsNeverLeaveOutAFalse(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.candidate(w.open(), "a", nil)
		elected, _ := c.RunForElection()
		require.False(w, <-elected)
		require.True(w, <-elected)
		for range 10 {
			c.Resign()
			w.until(c.IsLeader)
		}
		require.False(w, <-elected)
		require.True(w, <-elected)
		require.True(w, pending(elected))
	})
}

func TestEventsLeaveOutATakeoverThatFailed(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.candidate(w.open(), "a", nil)
		turns := 0
		c.OnWon(func(context.Context, *leadership.Term) error {
			if turns++; turns == 2 {
				return errTakeover
			}
			return nil
		})
		elected, _ := c.RunForElection()
		for range 2 {
			require.False(w, <-elected, "one for each true")
			require.True(w, <-elected)
			c.Resign()
		}
		require.Greater(w, turns, 2)
	})
}

// Under RunForElection the ballot stands until the callbacks have returned, also if Term.Resign was called.
func TestRunForElectionKeepsItsBallotUntilCallbacksReturn(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.candidate(w.open(), "a", nil)
		returns := make(chan struct{})
		c.OnWon(func(_ context.Context, term *leadership.Term) error {
			term.Resign()
			<-returns
			return nil
		})
		c.RunForElection()
		w.at(ttl)
		require.False(w, c.IsLeader())
		require.Equal(w, []string{"a"}, w.ballots())
		b := w.candidate(w.open(), "b", nil)
		b.RunForElection()
		w.at(10 * ttl)
		require.False(w, b.IsLeader())
		close(returns)
		w.until(b.IsLeader)
	})
}

func TestRunForElectionReportsErrors(t *testing.T) {
	virtual(t, func(w *world) {
		failures := []error{errors.New("first"), errors.New("second"), errors.New("third")}
		st := &fakeStore{Store: w.open()}
		st.cast = func(ctx context.Context, election, value string) (store.Ballot, error) {
			if len(failures) > 0 {
				err := failures[0]
				failures = failures[1:]
				return nil, err
			}
			return st.Store.Cast(ctx, election, value)
		}
		elected, errs := w.candidate(st, "a", nil).RunForElection()
		require.False(w, <-elected)
		require.True(w, <-elected)
		require.EqualError(w, <-errs, "third")
		require.True(w, pending(errs))
	})
}

// A permanent error is the last on the second channel. Both channels are closed, and nothing hangs.
func TestRunForElectionEndsWithWhatCannotBeCured(t *testing.T) {
	virtual(t, func(w *world) {
		st := &fakeStore{Store: w.open()}
		st.cast = func(context.Context, string, string) (store.Ballot, error) { return nil, store.ErrInvalid }
		c := w.candidate(st, "a", nil)
		elected, errs := c.RunForElection()
		require.False(w, <-elected)
		require.ErrorIs(w, <-errs, store.ErrInvalid)
		requireClosed(w, elected)
		requireClosed(w, errs)

		synctest.Wait() // the candidate is idle again
		st.cast = nil
		result := run(c, leadership.Lead)
		w.until(c.IsLeader) // the channels are no longer written to
		w.stops(c, result)
	})
	virtual(t, func(w *world) {
		st := w.open()
		elected, errs := w.candidate(st, "a", nil).RunForElection()
		require.False(w, <-elected)
		require.True(w, <-elected)
		synctest.Wait() // it has acknowledged
		require.NoError(w, st.Close())
		require.False(w, <-elected, "one who led has been sent a final false")
		require.ErrorIs(w, <-errs, leadership.ErrClosed)
		requireClosed(w, elected)
		requireClosed(w, errs)
	})
}

// TestNoTrueForATermThatIsOver: the lease has run out while the won callback ran, and that has not been noticed.
func TestNoTrueForATermThatIsOver(t *testing.T) {
	virtual(t, func(w *world) {
		frozen := make(chan struct{})
		st := w.open()
		c := w.candidate(changing(st, func(b *fakeBallot) { b.frozen = frozen }), "a", nil)
		c.OnWon(func(_ context.Context, term *leadership.Term) error {
			st.Faults().Cut()
			time.Sleep(ttl)
			require.NoError(w, term.Context().Err(), "what ends the term is frozen")
			return nil
		})
		elected, _ := c.RunForElection()
		w.at(ttl + time.Second)
		require.False(w, c.IsLeader())
		require.False(w, <-elected)
		require.True(w, pending(elected), "no true, since the term is over")
		close(frozen)
		halt(c)
		for leading := range elected {
			require.False(w, leading)
		}
	})
}

// Calls of the store that hang delay neither the end of the term nor its report.
func TestStoreCallsThatHang(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		var happened diary
		hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		c := w.candidate(changing(st, func(b *fakeBallot) {
			b.acknowledge = func(ctx context.Context, _ string) (store.Leader, error) { return store.Leader{}, hang(ctx) }
			b.withdraw = hang
		}), "a", &leadership.Options{Hooks: keeping(w, &happened)})
		elected, _ := c.RunForElection()
		require.False(w, <-elected)
		require.True(w, <-elected)
		st.Faults().Cut()
		require.False(w, <-elected)
		require.Equal(w, valid, w.now())
		require.False(w, c.IsLeader())
		synctest.Wait()
		require.Contains(w, happened.all(), "8s lost 1: ballot lost: the session was not renewed before its deadline")
		c.Stop()
		require.Equal(w, valid, w.now())
	})
}

// A leader that was not read is replaced by the next. A slow reader delays nothing. A leader with an empty value is not the
// zero Leader.
func TestFollowElectionCoalesces(t *testing.T) {
	virtual(t, func(w *world) {
		f, tell := w.scripted()
		values, _ := f.FollowElection()
		for i := range uint64(100) {
			tell(i+1, "never read")
		}
		tell(101, "latest")
		require.Equal(w, leadership.Leader{Value: "latest", Revision: 101}, <-values)
		require.True(w, pending(values))

		tell(102, "never read")
		tell(101, "latest")
		require.True(w, pending(values), "it does not differ from the one read last")
		tell(104, "latest")
		require.Equal(w, leadership.Leader{Value: "latest", Revision: 104}, <-values, "another acknowledgement")
		tell(105, "")
		require.Equal(w, leadership.Leader{Revision: 105}, <-values, "a leader whose value is empty")
		tell(0, "")
		require.Zero(w, <-values, "no leader")
	})
}

// A leader that was replaced before it was read counts as not sent: if it is right again, it is sent.
func TestFollowElectionAfterAValueThatWasReplaced(t *testing.T) {
	virtual(t, func(w *world) {
		f, tell := w.scripted()
		values, _ := f.FollowElection()
		tell(1, "a")
		require.Equal(w, "a", (<-values).Value)
		tell(2, "b")
		tell(1, "a")
		require.True(w, pending(values))
		tell(2, "b")
		require.False(w, pending(values))
		require.Equal(w, "b", (<-values).Value)
	})
}

func TestFollowElectionOnce(t *testing.T) {
	virtual(t, func(w *world) {
		f := w.follower(w.open(), nil)
		values, errs := f.FollowElection()
		closed := func() {
			w.Helper()
			values, errs := f.FollowElection()
			requireClosed(w, values)
			for range errs { // it ends
			}
		}
		closed()
		require.Zero(w, <-values)
		halt(f)
		requireClosed(w, values)
		requireClosed(w, errs, "a normal Stop is not an error")
		closed()
	})
}

func TestFollowElectionAfterStop(t *testing.T) {
	virtual(t, func(w *world) {
		f := w.follower(w.open(), nil)
		halt(f)
		values, errs := f.FollowElection()
		requireClosed(w, values)
		require.ErrorIs(w, <-errs, leadership.ErrStopped)
		requireClosed(w, errs)
		_, led := f.Leader()
		require.False(w, led, "it answers, and is not locked")
	})
}

// If an error ends the follower before FollowElection is called, FollowElection still reports it.
func TestFollowElectionReportsWhatEndedTheFollower(t *testing.T) {
	virtual(t, func(w *world) {
		st := &fakeStore{Store: w.open()}
		st.observe = func(context.Context, string, *store.Known) (store.Known, error) {
			return store.Known{}, store.ErrInvalid
		}
		f := w.follower(st, nil)
		f.Start()
		synctest.Wait()
		values, errs := f.FollowElection()
		requireClosed(w, values)
		require.ErrorIs(w, <-errs, store.ErrInvalid)
	})
}

// FollowElection sends the present state at once if the follower knows it.
func TestFollowElectionOfAKnownLeader(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "a")
		f := w.follower(w.open(), nil)
		f.Start()
		synctest.Wait()
		values, _ := f.FollowElection()
		require.Len(w, values, 1)
		require.Equal(w, "a", (<-values).Value)
	})
}

// TestFollowElectionMissesNoError: the channel has the first error also if it comes before FollowElection returns.
func TestFollowElectionMissesNoError(t *testing.T) {
	virtual(t, func(w *world) {
		st := &fakeStore{Store: w.open()}
		st.observe = func(context.Context, string, *store.Known) (store.Known, error) {
			return store.Known{}, store.ErrUnavailable
		}
		for range often(1250) {
			told := make(chan struct{})
			var once sync.Once
			f, err := leadership.NewFollower(st, election, &leadership.Options{Hooks: &leadership.Hooks{
				Error: func(string, error, time.Duration) { once.Do(func() { close(told) }) },
			}})
			require.NoError(w, err)
			_, errs := f.FollowElection()
			<-told
			require.Len(w, errs, 1)
			halt(f)
		}
	})
}
