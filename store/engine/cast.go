package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/trouble"
	"github.com/go-leadership/leadership/store"
)

// slot is what a cast holds until its outcome is known. Only its holder uses it.
type slot struct {
	number int
	turn   uint64
}

// errAgain says that a session or an entry was of no use: cast again.
var errAgain = errors.New("cast again")

// Cast implements store.Store.
func (e *Engine) Cast(ctx context.Context, election, value string) (store.Ballot, error) {
	if err := errors.Join(store.CheckElection(election), store.CheckValue(value)); err != nil {
		return nil, err
	}
	b, err := e.cast(ctx, election, value)
	if err != nil {
		return nil, e.life.Fail("cast", election, err)
	}
	return b, nil
}

// patience is how long Cast waits for an answer: over a slow link with TLS and a user the first takes most of a TTL.
func (e *Engine) patience() time.Duration { return max(2*e.settings.TTL, 5*time.Second) }

func (e *Engine) cast(ctx context.Context, election, value string) (*ballot, error) {
	ctx, done, err := e.call(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if report := trouble.Of(ctx); report != nil {
		defer e.gate.reportTo(func(err error) { report(e.life.Fail("cast", election, err)) })()
	}
	late := fmt.Errorf("%w: gave up after %v", store.ErrUnavailable, e.patience())
	ctx, cancel := context.WithTimeoutCause(ctx, e.patience(), late)
	defer cancel()
	for wait := (adapter.Retries{}); ; wait.Pause(ctx) {
		b, err := e.tryCast(ctx, election, value)
		switch err {
		case errAgain:
		case late: // no request has failed
			return nil, fmt.Errorf("%w: no answer", late)
		default:
			return b, err
		}
	}
}

// tryCast casts one ballot in the present session. When it returns, the slot is free, or an orphan has it.
func (e *Engine) tryCast(ctx context.Context, election, value string) (*ballot, error) {
	s, err := e.openSession(ctx)
	if err != nil {
		return nil, adapter.NotCast(err)
	}
	c, err := s.newClaim(ctx, election)
	if err != nil {
		return nil, err
	}
	entry, doubt, err := c.enter(ctx, value)
	if err == nil {
		if b := c.stand(entry, doubt); b != nil {
			e.slots <- c.slot
			return b, nil
		}
		err = errAgain
	}
	c.abandon(doubt)
	return nil, err
}

// enter makes the entry. After an unknown outcome it sends the request again with the same nonce, so that there is never
// a second entry. doubt: there might be an entry that enter has not returned, now or later.
func (c *claim) enter(ctx context.Context, value string) (entry Entry, doubt bool, err error) {
	s := c.session
	var last error
	for wait := (adapter.Retries{}); ; wait.Pause(ctx) {
		if ctx.Err() != nil { // nothing more is sent
			return Entry{}, doubt, adapter.Ended(ctx, nil, last)
		}
		err := s.send(ctx, func() (err error) {
			entry, err = s.driver.Enter(ctx, c.election, c.nonce, value)
			return err
		})
		if err == nil {
			s.engine.worked.Store(true)
			entry.Election = c.election
			return entry, doubt, nil
		}
		doubt = doubt || entry.Token != 0 || errors.Is(err, ErrGone) || errors.Is(err, store.ErrUnknownOutcome) ||
			ctx.Err() != nil && !errors.Is(err, store.ErrUnavailable)
		switch {
		case errors.Is(err, ErrOver):
			s.ended()
			return Entry{}, doubt, errAgain
		case errors.Is(err, ErrGone), s.ctx.Err() != nil:
			return Entry{}, doubt, errAgain
		case ctx.Err() != nil:
			return Entry{}, doubt, adapter.Ended(ctx, err, last)
		case !adapter.Uncertain(err):
			return Entry{}, doubt, err
		}
		last = err
	}
}

// stand makes a ballot of the entry, or returns nil if the session, and so the entry, is gone.
func (c *claim) stand(entry Entry, doubt bool) *ballot {
	b := newBallot(c, entry, doubt)
	e := c.session.engine
	e.mu.Lock()
	finished := c.session.finished
	if !finished {
		c.ballot = b
	}
	e.mu.Unlock()
	if finished {
		return nil
	}
	b.start()
	return b
}

// abandon ends a cast that made no ballot. If there may be an entry, an orphan voids it, and keeps the slot until then. If
// the store was stopped, its session is over.
func (c *claim) abandon(doubt bool) {
	if doubt && c.session.engine.life.Go(c.void) {
		return
	}
	c.settle()
	c.session.engine.slots <- c.slot
}

// void removes the entry of the cast, now or when it comes to be.
func (c *claim) void() {
	c.remove(c.election+" "+c.nonce.Name, func(ctx context.Context) error {
		return c.session.driver.Void(ctx, c.election, c.nonce)
	}, func(error, bool) {})
	c.session.engine.slots <- c.slot
}
