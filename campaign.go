package leadership

import (
	"context"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/store"
)

// Campaign stands for election and returns once the candidate leads. The other ways to drive a candidate are built on
// it. The caller acknowledges, watches Term.Context, and must call Term.Resign when its work has stopped: until then
// the ballot stands, and the candidate can't campaign again. Of the callbacks, Campaign calls only the new-leader
// callbacks.
//
// It returns early with an error when ctx ends, with its cause; when Stop is called; when the store returns an error that
// it does not retry by itself, such as a denial; when the ballot is lost; and with ErrNoLease, ErrTokenRegressed or, if
// an operator has asked for it, ErrResigned. It gives the ballot back first, which takes no longer than one TTL. Once
// Campaign has returned, ctx has no effect on the term. It returns ErrRunning at once if the candidate is being driven
// already, and ErrStopped after Stop.
func (c *Candidate) Campaign(ctx context.Context) (*Term, error) {
	d, err := c.drives.enter(ctx, false)
	if err != nil {
		return nil, err
	}
	won := false
	defer func() {
		d.cancel(nil)
		if !won {
			d.leave()
		}
	}()
	t, err := c.campaign(d)
	if err != nil {
		return nil, err
	}
	won = true
	return t, nil
}

// campaign casts a ballot, waits until it is first, and begins a term.
func (c *Candidate) campaign(d *drive) (*Term, error) {
	ctx := d.ctx
	ballot, err := c.store.Campaign(ctx, c.election, c.value)
	if err != nil {
		return nil, causeOr(ctx, err)
	}
	t, err := c.await(d, ballot)
	if err != nil {
		c.withdraw(ballot)
		return nil, causeOr(ctx, err)
	}
	return t, nil
}

// await waits until the ballot is first and its lease holds, and begins its term.
func (c *Candidate) await(d *drive, ballot store.Ballot) (*Term, error) {
	ctx := d.ctx
	if err := c.checkToken(ballot.Token()); err != nil {
		return nil, err
	}
	c.log.Debug("standing", "token", ballot.Token())
	stopTelling := c.tellOfNewLeaders(d)
	err := ballot.Wait(ctx)
	stopTelling()
	if err != nil {
		return nil, err
	}
	select {
	case <-resignation(ballot):
		return nil, errRequested
	default:
	}
	patience := time.NewTimer(c.store.TTL())
	defer patience.Stop()
	for {
		renewal := ballot.Lease().Last()
		if span, ok := ballot.Lease().Span(); ok { // the term lasts as long as this unbroken run of renewals
			return c.begin(d, ballot, span)
		}
		// First in line, and the session is not confirmed: an outage, or a link so slow that every answer comes too
		// late. Only a renewal can show that the session stands. Without one, the ballot must not keep the others
		// waiting.
		select {
		case <-renewal.Changed:
		case <-ballot.Lost():
			return nil, ballot.Err()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-patience.C:
			return nil, fmt.Errorf("%w: gave way after %v to the next in line", ErrNoLease, c.store.TTL())
		}
	}
}

// checkToken refuses a token that is not higher than all that this candidate has seen.
func (c *Candidate) checkToken(token uint64) error {
	if token <= c.highest {
		return fmt.Errorf("%w: election %q gave %d after %d; was the store restored to an earlier state?",
			ErrTokenRegressed, c.election, token, c.highest)
	}
	c.highest = token
	return nil
}

// begin begins a term: from here on IsLeader is true.
func (c *Candidate) begin(d *drive, ballot store.Ballot, span store.Span) (*Term, error) {
	t := newTerm(&c.candidacy, d, ballot, span)
	d.tasks.Add(1) // the term could be given back meanwhile, by its hook
	defer d.tasks.Done()
	if err := c.drives.keep(t); err != nil {
		return nil, err
	}
	returned := false
	defer func() {
		if !returned { // the hook has panicked, or has ended its goroutine: this call gives the ballot back, or nothing does
			t.end(ErrResigned)
			c.withdraw(ballot)
			c.drives.letGo(t)
		}
	}()
	t.begin()
	returned = true
	return t, nil
}

// causeOr returns the cause of ctx if that has ended, and err otherwise.
func causeOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
