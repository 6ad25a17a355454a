package bench

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// contender is a candidate with a channel for each of its steps.
type contender struct {
	*leadership.Candidate
	cast chan struct{}    // receives when its ballot stands and the watches are set
	won  chan victory     // receives what Campaign returned
	term *leadership.Term // the last that lead returned
}

// victory is a term, and the time at which IsLeader returned true.
type victory struct {
	at   time.Time
	term *leadership.Term
	err  error
}

func newContender(b *testing.B, st store.Store, election, value string) *contender {
	b.Helper()
	c := &contender{cast: make(chan struct{}, 1), won: make(chan victory, 1)}
	var err error
	c.Candidate, err = leadership.NewCandidate(casting{st, c.cast}, election, value, nil)
	require.NoError(b, err)
	b.Cleanup(c.Stop)
	return c
}

// stand campaigns in the background and returns when the ballot has been cast.
func (c *contender) stand(b *testing.B) {
	b.Helper()
	go func() { // Stop ends it
		term, err := c.Campaign(context.Background())
		if err == nil && !c.IsLeader() {
			err = errors.New("elected, and IsLeader is false")
		}
		c.won <- victory{time.Now(), term, err}
	}()
	select {
	case <-c.cast:
	case v := <-c.won: // it won at once, or failed
		require.NoError(b, v.err)
		c.won <- v
		receive(b, c.cast, "a ballot to be cast")
	case <-time.After(watchdog):
		b.Fatalf("waited %v for a ballot to be cast", watchdog)
	}
}

// lead waits until the contender leads. It returns the time at which the term began, and the term.
func (c *contender) lead(b *testing.B) (time.Time, *leadership.Term) {
	b.Helper()
	v := receive(b, c.won, "Campaign to return")
	require.NoError(b, v.err)
	c.term = v.term
	return v.at, v.term
}

// takeOver waits until the contender leads, and acknowledges. It returns the time at which the term began.
func (c *contender) takeOver(b *testing.B) time.Time {
	b.Helper()
	at, term := c.lead(b)
	require.NoError(b, term.Acknowledge(b.Context()))
	return at
}

// casting is a store that sends on a channel when a ballot has been cast.
type casting struct {
	store.Store
	cast chan<- struct{}
}

// Cast implements store.Store.
func (c casting) Cast(ctx context.Context, election, value string) (store.Ballot, error) {
	ballot, err := c.Store.Cast(ctx, election, value)
	if err == nil {
		c.cast <- struct{}{}
	}
	return ballot, err
}
