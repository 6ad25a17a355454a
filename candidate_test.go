package leadership_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func TestNewCandidateRefusesWhatStoresDoNotTake(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		for _, name := range []string{
			"", "/", "a/", "/a", "a//b", "..", "a/./b", "_a", "a/_ballots", "a__b", "a\x00", "a\n", "\xff", "\ue000",
			"😀", strings.Repeat("x", store.MaxElection+1),
		} {
			_, err := leadership.NewCandidate(st, name, "v", nil)
			require.ErrorIs(t, err, store.ErrInvalid, "%q", name)
			var field *store.FieldError
			require.ErrorAs(t, err, &field, "%q", name)
			require.Equal(t, "election", field.Field, "%q", name)
		}
		_, err := leadership.NewCandidate(st, election, strings.Repeat("v", store.MaxValue+1), nil)
		require.ErrorIs(t, err, store.ErrInvalid)
		require.ErrorContains(t, err, "value")
		_, err = leadership.NewCandidate(nil, election, "v", nil)
		require.EqualError(t, err, "invalid store: it is nil")
		require.ErrorIs(t, err, store.ErrInvalid)
		_, err = leadership.NewFollower(nil, election, nil)
		require.EqualError(t, err, "invalid store: it is nil")
		require.Zero(t, st.Faults().Requests(), "it sends nothing")
		require.PanicsWithValue(w, "leadership: Run has no function to call; leadership.Lead acknowledges and waits", func() {
			_ = w.candidate(st, "a", nil).Run(background, nil)
		})
	})
}

// A paused process runs none of our goroutines. A ballot that blocks the goroutine of the term stands for the pause.
func TestIsLeaderIsRightWhereNothingOfOursHasRun(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		frozen, resume := w.frozen(st)
		c := w.candidate(frozen, "a", nil)
		term := w.campaign(c)
		st.Faults().Cut()
		w.at(valid - 1)
		require.True(w, c.IsLeader())
		w.at(10 * ttl)
		require.NoError(w, term.Context().Err(), "nothing of ours has run")
		require.False(w, c.IsLeader())
		require.Zero(w, term.Remaining())
		require.ErrorIs(w, term.Acknowledge(background), leadership.ErrNotElected)
		resume()
		synctest.Wait()
		require.ErrorIs(w, context.Cause(term.Context()), leadership.ErrLost)
	})
}

func TestIsLeaderAllocatesNothing(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.candidate(w.open(), "a", nil)
		require.Zero(w, testing.AllocsPerRun(100, func() { c.IsLeader() }))
		w.campaign(c)
		require.True(w, c.IsLeader())
		require.Zero(w, testing.AllocsPerRun(100, func() { c.IsLeader() }))
	})
}

// The same if no goroutine of ours has run when the confirmation arrives: the lease holds again, but the term is over.
func TestLateConfirmationRevivesNothingUnseen(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		frozen, resume := w.frozen(st)
		c := w.candidate(frozen, "a", nil)
		term := w.campaign(c)
		st.Faults().Delay(3 * time.Second)
		w.at(10 * time.Second) // deadline at 8 s, confirmation at 9 s of what was sent at 3 s, lasting until 11 s
		require.NoError(w, term.Context().Err(), "nothing of ours has run")
		require.Equal(w, w.began.Add(renew), term.Ballot().Lease().Last().Sent, "the confirmation has come")
		require.False(w, c.IsLeader())
		require.Zero(w, term.Remaining())
		resume()
		st.Faults().Delay(0)
	})
}

// Printing a candidate, follower or term shows no fields and is free of data races.
func TestFormat(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		c, f := w.candidate(st, "hUnter2", nil), w.follower(st, nil)
		term := w.campaign(c)
		f.Start()
		go c.Stop()
		for _, verb := range []string{"%v", "%+v", "%s", "%q"} {
			for _, x := range []any{c, f, term} {
				require.NotContains(w, fmt.Sprintf(verb, x), "hUnter2", "%s of %T", verb, x)
			}
		}
		require.Equal(w, `candidate in election "database/primary" on memory://`, fmt.Sprint(c))
		require.Equal(w, `follower of election "database/primary" on memory://`, fmt.Sprint(f))
		require.Equal(w, fmt.Sprintf(`term %d in election "database/primary" on memory://`, term.Token()), fmt.Sprint(term))
		other := w.candidate(&fakeStore{Store: st}, "hUnter2", nil)
		require.True(w, strings.HasSuffix(other.String(), "on *leadership_test.fakeStore"), "a store without a name: %s", other)
	})
}

// When Resign or Stop returns, the candidate does not lead. The term's context and all contexts derived from it have
// ended, also if another call is ending the term at the same time, which takes long with so many contexts. When the
// context ends, the candidate does not lead any more.
func TestContextHasEndedWhenResignReturns(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		for range often(10) {
			c, err := leadership.NewCandidate(st, election, "a", nil)
			require.NoError(w, err)
			term := w.campaign(c)
			goOn := func(ctx context.Context) bool { return ctx.Err() == nil }
			contexts := []context.Context{term.Context()}
			for range 300 {
				derived, cancel := context.WithCancel(term.Context())
				defer cancel()
				contexts = append(contexts, derived)
			}
			var late atomic.Int32
			var calls sync.WaitGroup
			for _, end := range []func(){c.Resign, c.Resign, c.Stop, c.Stop} {
				calls.Go(func() {
					end()
					if c.IsLeader() || slices.ContainsFunc(contexts, goOn) {
						late.Add(1)
					}
				})
			}
			calls.Go(func() {
				<-term.Context().Done()
				if c.IsLeader() {
					late.Add(1)
				}
			})
			calls.Wait()
			require.Zero(w, late.Load())
			require.NoError(w, term.Withdraw(background))
		}
	})
}

// However a term ends, IsLeader is false before its ballot is withdrawn: the next candidate leads from then on.
func TestTermIsOverBeforeItsBallotIsWithdrawn(t *testing.T) {
	for name, drive := range map[string]func(w *world, c *leadership.Candidate){
		"Resign": func(w *world, c *leadership.Candidate) { require.NoError(w, w.campaign(c).Withdraw(background)) },
		"lead returns": func(w *world, c *leadership.Candidate) {
			calls := 0
			require.NoError(w, c.Run(background, func(context.Context, *leadership.Term) error {
				if calls++; calls == 2 {
					c.Stop()
				}
				return nil
			}))
		},
		"lead panics": func(w *world, c *leadership.Candidate) {
			require.Panics(w, func() {
				_ = c.Run(background, func(context.Context, *leadership.Term) error { panic("boom") })
			})
		},
	} {
		virtualRun(t, name, func(w *world) {
			var c *leadership.Candidate
			var led []bool
			st := changing(w.open(), func(b *fakeBallot) {
				b.withdraw = func(ctx context.Context) error {
					led = append(led, c.IsLeader())
					return b.Ballot.Withdraw(ctx)
				}
			})
			c = w.candidate(st, "a", nil)
			drive(w, c)
			require.NotEmpty(w, led)
			require.NotContains(w, led, true)
		})
	}
}

// If Stop comes when the ballot is first and the term has not begun, the term does not begin.
func TestStopJustBeforeTheTermBegins(t *testing.T) {
	virtual(t, func(w *world) {
		var c *leadership.Candidate
		var began atomic.Bool
		c = w.candidate(changing(w.open(), func(b *fakeBallot) { b.onLease = func() { c.Stop() } }), "a",
			on(leadership.TermBegan, func(leadership.Event) { began.Store(true) }))
		_, err := c.Campaign(background)
		require.ErrorIs(w, err, leadership.ErrStopped)
		require.False(w, c.IsLeader())
		require.False(w, began.Load())
		require.Empty(w, w.ballots())
	})
}

// restored is a store whose service gives the next token to each ballot, until it is set back.
type restored struct {
	*fakeStore
	mu     sync.Mutex
	next   uint64 // guarded by mu, as are all below
	stands int    // ballots, as an operator sees them
}

// hinting is a ballot whose store says what an operator does.
type hinting struct{ *fakeBallot }

func (hinting) RaiseTokens() string { return "turn the wheel" }

func (w *world) restored() *restored {
	w.Helper()
	r := &restored{next: 5000}
	st := w.open()
	r.fakeStore = changing(st, func(b *fakeBallot) {
		r.mu.Lock()
		defer r.mu.Unlock()
		b.token = r.next
		r.next++
		r.stands++
		b.withdraw = func(ctx context.Context) error {
			r.mu.Lock()
			r.stands--
			r.next++ // as a removal does
			r.mu.Unlock()
			return b.Ballot.Withdraw(ctx)
		}
	})
	cast := r.cast
	r.cast = func(ctx context.Context, election, value string) (store.Ballot, error) {
		ballot, err := cast(ctx, election, value)
		if err != nil {
			return nil, err
		}
		return hinting{ballot.(*fakeBallot)}, nil
	}
	return r
}

func (r *restored) set(next uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = next
}

func (r *restored) now() (next uint64, stands int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next, r.stands
}

// leadsOnce makes a candidate lead and resign, so that it knows a token.
func (w *world) leadsOnce(c *leadership.Candidate) {
	w.Helper()
	term := w.campaign(c)
	require.Equal(w, uint64(5000), term.Token())
	require.NoError(w, term.Withdraw(background))
}

// A candidate that knows a higher token casts ballots until its tokens are higher.
func TestTokensThatWentBackAreRaised(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.restored()
		var waits []time.Duration
		c := w.candidate(st, "a", trying(&waits, leadership.ErrTokenRegressed))
		w.leadsOnce(c)
		st.set(4700)
		terms := make(chan uint64, 1)
		result := run(c, func(ctx context.Context, term *leadership.Term) error {
			terms <- term.Token()
			<-ctx.Done()
			return nil
		})
		require.Greater(w, <-terms, uint64(5000))
		synctest.Wait()
		require.Zero(w, w.now())
		require.Equal(w, []time.Duration{0}, waits)
		_, stands := st.now()
		require.Equal(w, 1, stands)
		require.NoError(w, c.Status().LastError)
		w.stops(c, result)
	})
}

// A candidate that can't raise the tokens says what an operator does, again after pauses that grow, and leads once it is
// done. Its ballot stands meanwhile, and goes to the back of the queue again and again.
func TestTokensThatCantBeRaised(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.restored()
		var waits []time.Duration
		c := w.candidate(st, "a", trying(&waits, leadership.ErrTokenRegressed))
		st.set(1e6)
		term := w.campaign(c)
		require.NoError(w, term.Withdraw(background))
		st.set(1)
		terms := make(chan uint64, 1)
		result := run(c, func(ctx context.Context, term *leadership.Term) error {
			terms <- term.Token()
			<-ctx.Done()
			return nil
		})
		w.at(time.Hour)
		require.Empty(w, terms)
		require.Len(w, waits, 6, "at once, and after 1, 3, 7, 15 and 31 minutes")
		next, stands := st.now()
		require.Less(w, next, uint64(2000), "it casts a ballot every 5 s")
		require.Equal(w, 1, stands, "an operator finds it in the queue")
		err := c.Status().LastError
		require.ErrorIs(w, err, leadership.ErrTokenRegressed)
		require.ErrorContains(w, err, `election "database/primary" gave token`)
		require.ErrorContains(w, err, ", and 1000000 at "+w.began.Format(time.RFC3339))
		require.ErrorContains(w, err, "raise the service's index by more than 99")
		require.ErrorContains(w, err, ": turn the wheel. Or reset what remembers tokens, and then restart this process")

		fresh := w.candidate(st, "b", nil) // it knows no token
		term = w.campaign(fresh)
		require.Less(w, term.Token(), uint64(2000))
		require.LessOrEqual(w, w.now(), time.Hour+5*time.Second)

		st.set(1e6)
		require.NoError(w, term.Withdraw(background))
		require.Greater(w, <-terms, uint64(1e6))
		w.stops(c, result)
	})
}

// Whatever ends the wait, the ballot is withdrawn.
func TestLowBallotIsWithdrawn(t *testing.T) {
	for name, end := range map[string]func(w *world, c *leadership.Candidate){
		"stopped": func(_ *world, c *leadership.Candidate) { c.Stop() },
		"asked": func(w *world, _ *leadership.Candidate) {
			queue, err := w.observer.Ballots(background, election)
			require.NoError(w, err)
			require.NoError(w, w.observer.RequestResignation(background, election, queue[0].Token))
		},
		"taken away":   func(w *world, _ *leadership.Candidate) { require.NoError(w, w.observer.Clear(background, election)) },
		"time to look": func(w *world, _ *leadership.Candidate) { w.at(6 * time.Second) },
	} {
		virtualRun(t, name, func(w *world) {
			st := w.restored()
			c := w.candidate(st, "a", nil)
			st.set(1e6)
			require.NoError(w, w.campaign(c).Withdraw(background))
			st.set(1)
			result := run(c, leadership.Lead)
			w.until(func() bool { return slices.Equal(w.ballots(), []string{"a"}) })
			first, _ := st.now()
			end(w, c)
			if name == "stopped" {
				require.NoError(w, <-result)
				require.Empty(w, w.ballots())
				return
			}
			var next uint64
			w.until(func() bool { next, _ = st.now(); return next > first && slices.Equal(w.ballots(), []string{"a"}) })
			require.Less(w, next, first+10)
			w.stops(c, result)
			synctest.Wait()
			require.Empty(w, w.ballots())
		})
	}
}

// Campaign refuses at once what it can't cure: a token that is far too low, or that does not grow.
func TestCampaignRefusesTokensThatRegress(t *testing.T) {
	for name, tokens := range map[string][]uint64{"far too low": {10}, "lower": {999_950, 999_950}, "equal": {1e6, 1e6}} {
		virtualRun(t, name, func(w *world) {
			next := []uint64{1e6}
			c := w.candidate(changing(w.open(), func(b *fakeBallot) {
				b.token, next = next[0], next[1:]
			}), "a", nil)
			require.NoError(w, w.campaign(c).Withdraw(background))
			next = tokens
			_, err := c.Campaign(background)
			require.ErrorIs(w, err, leadership.ErrTokenRegressed)
			require.ErrorContains(w, err, "1000000")
			require.Empty(w, next)
			require.Empty(w, w.ballots(), "the refused ballot is withdrawn")
			next = []uint64{1e6 + 1}
			require.Equal(w, uint64(1e6+1), w.campaign(c).Token(), "a higher one is fine again")
		})
	}
}
