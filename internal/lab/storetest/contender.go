package storetest

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// Contender is a candidate that Run drives, and tells of its terms.
type Contender struct {
	*leadership.Candidate
	Value string
	Store store.Store
	Terms chan *leadership.Term // acknowledged
	Ended chan error            // what Run returned
	End   func()                // ends Run and waits for it

	mu   sync.Mutex
	errs []error // guarded by mu
}

// Contend lets a candidate stand until the end of the test: it leads for as long as it can.
func Contend(t testing.TB, st store.Store, election, value string) *Contender {
	t.Helper()
	c := &Contender{Value: value, Store: st, Terms: make(chan *leadership.Term, 1000), Ended: make(chan error, 1)}
	var err error
	c.Candidate, err = leadership.NewCandidate(st, election, value, &leadership.CandidateOptions{Logger: slog.New(slog.DiscardHandler), Events: c.event})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Ended <- c.Run(ctx, func(ctx context.Context, term *leadership.Term) error {
			if err := term.Acknowledge(ctx); err != nil {
				return err
			}
			c.Terms <- term
			<-ctx.Done()
			return nil
		})
	}()
	c.End = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(c.End)
	return c
}

// Current returns the term in which the contender leads, and nil if it does not lead.
func (c *Contender) Current() *leadership.Term {
	term, _ := c.Term()
	return term
}

func (c *Contender) event(e leadership.Event) {
	if e.Kind == leadership.AttemptFailed {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.errs = append(c.errs, e.Err)
	}
}

// Errors returns what the hook for errors was told so far.
func (c *Contender) Errors() []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.errs)
}

// OneLeader watches, until the test ends, that no two contenders of one election see themselves as leader at once.
func OneLeader(t testing.TB, contenders ...*Contender) {
	t.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			for i, a := range contenders {
				for _, b := range contenders[i+1:] {
					// b is asked while one term of a lasts: a might lead, lose to b and lead again between two looks.
					term, leads := a.Term()
					if !leads || !b.IsLeader() {
						continue
					}
					if still, _ := a.Term(); still == term {
						t.Errorf("%s and %s lead at once", a.Value, b.Value)
					}
				}
			}
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
}

// LeaderAmong waits until exactly one of the contenders leads and returns it.
func LeaderAmong(t testing.TB, contenders ...*Contender) *Contender {
	t.Helper()
	var leader *Contender
	Eventually(t, func() bool {
		n := 0
		for _, c := range contenders {
			if c.IsLeader() {
				n++
				leader = c
			}
		}
		return n == 1
	}, "exactly one leader")
	return leader
}
