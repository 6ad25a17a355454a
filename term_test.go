package leadership_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func TestTermMovesWithRenewals(t *testing.T) {
	virtual(t, func(w *world) {
		st, _, term := w.elected()
		is := func(deadline, remaining time.Duration) {
			w.Helper()
			require.Equal(w, remaining, term.Remaining())
			require.Equal(w, deadline, w.now()+remaining)
		}
		is(valid, valid)
		w.at(2 * time.Second)
		is(valid, valid-2*time.Second)
		w.at(renew)
		is(renew+valid, valid)
		w.at(2 * renew)
		is(2*renew+valid, valid)
		st.Faults().Cut()
		w.at(2*renew + valid - 1)
		is(2*renew+valid, 1)
		w.at(2*renew + valid)
		require.Zero(w, term.Remaining(), "the term is over")
		st.Faults().Heal()
		w.at(2*renew + valid + ttl)
		require.Zero(w, term.Remaining(), "and no renewal revives it")
	})
}

func TestTermContextSaysWhyItEnded(t *testing.T) {
	for name, test := range map[string]struct {
		end   func(w *world, c *leadership.Candidate, term *leadership.Term, st *fakeStore)
		cause error
	}{
		"withdrawn": {func(w *world, _ *leadership.Candidate, term *leadership.Term, _ *fakeStore) {
			require.NoError(w, term.Withdraw(background))
		}, leadership.ErrResigned},
		"resigned by the term": {func(w *world, _ *leadership.Candidate, term *leadership.Term, _ *fakeStore) {
			term.End(nil)
			require.Equal(w, []string{"a"}, w.ballots(), "the ballot stands until it is withdrawn")
		}, leadership.ErrResigned},
		"resigned by the candidate": {func(w *world, c *leadership.Candidate, _ *leadership.Term, _ *fakeStore) {
			c.Resign()
		}, leadership.ErrResigned},
		"stopped": {func(_ *world, c *leadership.Candidate, _ *leadership.Term, _ *fakeStore) {
			c.Stop()
		}, leadership.ErrStopped},
		"ballot removed": {func(w *world, _ *leadership.Candidate, _ *leadership.Term, _ *fakeStore) {
			w.service.Clear(election)
		}, leadership.ErrLost},
		"store closed": {func(w *world, _ *leadership.Candidate, _ *leadership.Term, st *fakeStore) {
			require.NoError(w, st.Close())
		}, leadership.ErrLost},
	} {
		virtualRun(t, name, func(w *world) {
			st := &fakeStore{Store: w.open()}
			c := w.candidate(st, "a", nil)
			term := w.campaign(c)
			require.NoError(w, context.Cause(term.Context()))
			require.True(w, c.IsLeader())
			test.end(w, c, term, st)
			synctest.Wait()
			require.ErrorIs(w, context.Cause(term.Context()), test.cause)
			require.False(w, c.IsLeader())
			require.Zero(w, term.Remaining())
			require.NoError(w, term.Withdraw(background))
		})
	}
}

// Withdraw returns an error if it could not confirm that the ballot was removed, and so does a second call. Once it is
// confirmed, a call sends nothing.
func TestTermWithdrawEndsWithItsContext(t *testing.T) {
	virtual(t, func(w *world) {
		st, c, term := w.elected()
		st.Faults().Cut()
		for i := range 2 {
			ctx, cancel := context.WithTimeout(background, time.Second)
			defer cancel()
			require.ErrorIs(w, term.Withdraw(ctx), context.DeadlineExceeded)
			require.Equal(w, time.Duration(i+1)*time.Second, w.now())
			require.False(w, c.IsLeader())
			require.Equal(w, []string{"a"}, w.ballots())
		}
		st.Faults().Heal()
		synctest.Wait()
		require.Empty(w, w.ballots(), "the store went on in the background")
		require.NoError(w, term.Withdraw(background))
		synctest.Wait() // its watches have gone
		sent := st.Faults().Requests()
		require.NoError(w, term.Withdraw(background))
		require.Equal(w, sent, st.Faults().Requests())
	})
}

// A second Resign, after the candidate has stood again, leaves the newer ballot alone.
func TestTermWithdrawLeavesALaterTermAlone(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		c := w.candidate(st, "a", nil)
		old := w.campaign(c)
		st.Faults().LoseReplies()
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		require.Error(w, old.Withdraw(ctx))
		st.Faults().Heal()
		w.campaign(c)
		require.NoError(w, old.Withdraw(background))
		synctest.Wait()
		require.True(w, c.IsLeader())
		require.Equal(w, []string{"a"}, w.ballots())
		_, err := c.Campaign(background)
		require.ErrorIs(w, err, leadership.ErrRunning, "the later term is not withdrawn")
	})
}

// The ballot of a term from Campaign stands until the caller's work has stopped and the caller calls Resign.
func TestTermKeepsItsBallotUntilItIsWithdrawn(t *testing.T) {
	virtual(t, func(w *world) {
		fake := changing(w.open(), func(b *fakeBallot) { b.lease = store.NewLease(); b.lease.Renew(store.Now(), valid) })
		a, b := w.candidate(fake, "a", nil), w.candidate(w.open(), "b", nil)
		term := w.campaign(a)
		waiting := campaigning(background, b)
		<-term.Context().Done() // the fake lease ended; the session below is renewed
		w.at(10 * ttl)
		require.True(w, pending(waiting))
		require.Equal(w, []string{"a", "b"}, w.ballots())
		require.NoError(w, term.Withdraw(background))
		require.NoError(w, <-waiting)
	})
}

// Term returns the term for as long as the candidate leads.
func TestTermOfTheCandidate(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		c := w.candidate(st, "a", nil)
		require.Nil(w, termOf(c))
		run(c, leadership.Lead)
		synctest.Wait()
		first := termOf(c)
		require.NotNil(w, first)
		list, err := w.observer.Ballots(background, election)
		require.NoError(w, err)
		require.Equal(w, list[0].Token, first.Token())
		c.Resign()
		require.Nil(w, termOf(c))
		w.until(c.IsLeader)
		require.Greater(w, termOf(c).Token(), first.Token())
		st.Faults().Cut()
		w.at(w.now() + valid)
		require.Nil(w, termOf(c))
	})
	virtual(t, func(w *world) { // the lease is over, and nothing of ours has run
		st := w.open()
		frozen, _ := w.frozen(st)
		c := w.candidate(frozen, "a", nil)
		w.campaign(c)
		st.Faults().Cut()
		w.at(valid)
		require.Nil(w, termOf(c))
	})
}

// If the leader's function fails, the term ends with ErrFailed, which wraps the error. The log, the events and the status say
// so; it is no resignation. The same holds if the function has ended the term before.
func TestTermThatFails(t *testing.T) {
	for name, end := range map[string]func(term *leadership.Term){
		"lead": func(*leadership.Term) {},
		"End":  func(term *leadership.Term) { term.End(errTakeover) },
	} {
		virtualRun(t, name, func(w *world) {
			var log journal
			var reported []error
			c := w.candidate(w.open(), "a", &leadership.CandidateOptions{Logger: log.logger(), Events: func(e leadership.Event) {
				if e.Err != nil {
					reported = append(reported, e.Err)
				}
			}})
			failed := true
			result := run(c, func(ctx context.Context, term *leadership.Term) error {
				if failed {
					end(term)
					return errTakeover
				}
				return serve(ctx, term)
			})
			w.at(time.Millisecond)
			failed = false
			require.Len(w, reported, 2, "the end of the term, and the attempt that failed")
			for _, err := range append(reported, c.Status().LastError) {
				require.ErrorIs(w, err, leadership.ErrFailed)
				require.ErrorIs(w, err, errTakeover)
				require.NotErrorIs(w, err, leadership.ErrResigned)
				require.EqualError(w, err, "the leader's function failed: the disk is full")
			}
			require.Contains(w, log.String(), `msg="leadership ended" election=database/primary token=2 cause="the leader's function failed: `)
			w.until(c.IsLeader)
			w.stops(c, result)
		})
	}
}

// If lead panics or ends its goroutine, the ballot is withdrawn before that goes on in the caller of Run. The candidate can
// be used again.
func TestLeadThatExits(t *testing.T) {
	for exit, how := range exits {
		virtualRun(t, exit, func(w *world) {
			var ended error
			c := w.candidate(w.open(), "a", on(leadership.TermEnded, func(e leadership.Event) { ended = e.Err }))
			gone := make(chan any, 1)
			go func() {
				defer func() { gone <- recover() }()
				_ = c.Run(background, func(context.Context, *leadership.Term) error { how.leave(); return nil })
			}()
			if p := <-gone; exit == "panic" {
				require.Equal(w, "boom", p)
			}
			synctest.Wait()
			require.ErrorIs(w, ended, leadership.ErrFailed)
			require.ErrorContains(w, ended, "panicked or ended its goroutine")
			require.False(w, c.IsLeader())
			require.Empty(w, w.ballots())
			result := run(c, serve)
			require.True(w, pending(result))
			require.True(w, c.IsLeader())
		})
	}
}

// A term that was over before anything noticed it was lost, whatever ends it then.
func TestTermThatWasOverUnnoticed(t *testing.T) {
	for how, over := range map[string]func(w *world){
		"lease": func(w *world) {
			w.stores[1].Faults().Cut()
			w.at(2 * ttl)
			w.stores[1].Faults().Heal()
		},
		"ballot": func(w *world) { w.service.Clear(election); synctest.Wait() },
	} {
		for what, end := range map[string]func(c *leadership.Candidate, fail func()){
			"Resign":     func(c *leadership.Candidate, _ func()) { c.Resign() },
			"Stop":       func(c *leadership.Candidate, _ func()) { c.Stop() },
			"lead fails": func(_ *leadership.Candidate, fail func()) { fail() },
		} {
			virtualRun(t, what+" after the "+how, func(w *world) {
				var causes []error
				failing := make(chan struct{})
				st, _ := w.frozen(w.open())
				c := w.candidate(st, "a", on(leadership.TermEnded, func(e leadership.Event) { causes = append(causes, e.Err) }))
				run(c, func(ctx context.Context, _ *leadership.Term) error {
					select {
					case <-ctx.Done():
						return nil
					case <-failing:
						return errTakeover
					}
				})
				w.at(time.Second)
				require.True(w, c.IsLeader())
				over(w)
				end(c, func() { close(failing) })
				synctest.Wait()
				require.Len(w, causes, 1)
				require.ErrorIs(w, causes[0], leadership.ErrLost)
				for _, err := range []error{leadership.ErrResigned, leadership.ErrStopped, leadership.ErrFailed} {
					require.NotErrorIs(w, causes[0], err)
				}
			})
		}
	}
}

// A bound context ends with the term, with its cause, and with the context that it was made of.
func TestBind(t *testing.T) {
	virtual(t, func(w *world) {
		_, c, term := w.elected()
		type key struct{}
		of, end := context.WithCancelCause(context.WithValue(background, key{}, 1))
		first, cancelFirst := term.Bind(of)
		second, cancelSecond := term.Bind(background)
		third, cancelThird := term.Bind(background)
		require.Equal(w, 1, first.Value(key{}))
		end(errChangedMind)
		require.Equal(w, errChangedMind, context.Cause(first))
		cancelSecond()
		require.Equal(w, context.Canceled, context.Cause(second))
		require.NoError(w, third.Err())
		c.Resign()
		synctest.Wait()
		require.Equal(w, leadership.ErrResigned, context.Cause(third))
		cancelFirst()
		cancelThird()
	})
}
