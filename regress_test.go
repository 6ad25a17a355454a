package leadership_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// restored is a store whose service gives the next token to each ballot, until it is set back.
type restored struct {
	*fakeStore
	mu     sync.Mutex
	next   uint64 // guarded by mu, as are all below
	stands int    // ballots, as an operator sees them
	least  int    // since it was set
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
			r.least = min(r.least, r.stands)
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

// set sets the next token, and forgets how many stood.
func (r *restored) set(next uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next, r.stands, r.least = next, 0, 1
}

func (r *restored) now() (next uint64, stands, least int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next, r.stands, r.least
}

// leadsOnce makes a candidate lead and resign, so that it knows a token.
func (w *world) leadsOnce(c *leadership.Candidate) {
	w.Helper()
	term := w.campaign(c)
	require.Equal(w, uint64(5000), term.Token())
	require.NoError(w, term.Withdraw(background))
}

// A candidate that knows a higher token casts ballots until its tokens are higher. One of them stands all the time.
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
		require.Zero(w, w.now())
		require.Equal(w, []time.Duration{0}, waits)
		_, stands, least := st.now()
		require.Equal(w, 1, least, "an operator finds it in the queue")
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
		next, _, least := st.now()
		require.Less(w, next, uint64(2000), "it casts a ballot every 5 s")
		require.Equal(w, 1, least)
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

// Whatever ends the wait, the ballot is given back.
func TestLowBallotIsGivenBack(t *testing.T) {
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
			first, _, _ := st.now()
			end(w, c)
			if name == "stopped" {
				require.NoError(w, <-result)
				require.Empty(w, w.ballots())
				return
			}
			var next uint64
			w.until(func() bool { next, _, _ = st.now(); return next > first && slices.Equal(w.ballots(), []string{"a"}) })
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
			require.Empty(w, w.ballots(), "the refused ballot is given back")
			next = []uint64{1e6 + 1}
			require.Equal(w, uint64(1e6+1), w.campaign(c).Token(), "a higher one is fine again")
		})
	}
}
