package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// slot is what a cast or a removal in the background holds while its request may be under way. Only its holder uses it.
type slot struct {
	number int
	turn   uint64
}

// cast is one attempt to cast a ballot: one nonce in one session, with a slot until its outcome is known.
type cast struct {
	session  *session
	slot     *slot
	election string
	nonce    Nonce
}

// errAgain says that a session or an entry was of no use: cast again.
var errAgain = errors.New("cast again")

// Cast implements store.Store.
func (e *Engine) Cast(ctx context.Context, election, value string) (store.Ballot, error) {
	if err := errors.Join(store.CheckElection(election), store.CheckValue(value)); err != nil {
		return nil, err
	}
	b, err := e.campaign(ctx, election, value)
	if err != nil {
		return nil, e.life.Fail("campaign", election, err)
	}
	return b, nil
}

func (e *Engine) campaign(ctx context.Context, election, value string) (*ballot, error) {
	ctx, done, err := e.call(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	late := fmt.Errorf("%w: gave up after %v", store.ErrUnavailable, e.settings.CampaignTimeout)
	if timeout := e.settings.CampaignTimeout; timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, late)
		defer cancel()
	}
	for wait := (adapter.Retries{}); ; wait.Pause(ctx) {
		b, err := e.cast(ctx, election, value)
		switch err {
		case errAgain:
		case late: // no request has failed
			return nil, fmt.Errorf("%w: no answer", late)
		default:
			return b, err
		}
	}
}

// cast casts one ballot in the present session.
func (e *Engine) cast(ctx context.Context, election, value string) (*ballot, error) {
	s, err := e.openSession(ctx)
	if err != nil {
		return nil, adapter.NotCast(err)
	}
	c, err := s.newCast(ctx, election)
	if err != nil {
		return nil, err
	}
	return c.enter(ctx, value)
}

// newCast waits for a slot. Those who wait get one in the order in which they came, and leave with their context.
func (s *session) newCast(ctx context.Context, election string) (*cast, error) {
	e := s.engine
	c := &cast{session: s, election: election}
	select {
	case c.slot = <-e.slots:
	case <-ctx.Done():
		return nil, adapter.Ended(ctx, nil, e.outage.err())
	}
	e.mu.Lock()
	e.casts++
	c.name(fmt.Sprintf("%s%08x", e.id, e.casts))
	over := s.over
	if !over {
		s.begin(c.nonce.Name)
	}
	e.mu.Unlock()
	if over {
		e.slots <- c.slot
		return nil, errAgain
	}
	return c, nil
}

// name gives the cast a nonce in the next turn of its slot.
func (c *cast) name(name string) {
	c.slot.turn++
	c.nonce = Nonce{Name: name, Slot: c.slot.number, Turn: c.slot.turn}
}

// enter makes the entry. After an unknown outcome it sends the request again, with the same nonce, so that there is
// never a second entry. However it ends, the slot is free, an orphan has it, or there is a ballot.
func (c *cast) enter(ctx context.Context, value string) (*ballot, error) {
	s := c.session
	doubt := false // whether there may be an entry, now or later
	var last error
	for wait := (adapter.Retries{}); ; wait.Pause(ctx) {
		if ctx.Err() != nil { // nothing more is sent
			c.leave(doubt)
			return nil, adapter.Ended(ctx, nil, last)
		}
		var entry Entry
		err := s.send(ctx, func() (err error) {
			entry, err = s.driver.Enter(ctx, c.election, c.nonce, value)
			return err
		})
		if err == nil {
			s.engine.worked.Store(true)
			return c.stand(entry, doubt)
		}
		doubt = doubt || entry.Token != 0 || errors.Is(err, ErrGone) || errors.Is(err, store.ErrUnknownOutcome) ||
			ctx.Err() != nil && !errors.Is(err, store.ErrUnavailable)
		switch {
		case errors.Is(err, ErrOver):
			s.ended()
			fallthrough
		case errors.Is(err, ErrGone), s.ctx.Err() != nil:
			c.leave(doubt)
			return nil, errAgain
		case ctx.Err() != nil:
			c.leave(doubt)
			return nil, adapter.Ended(ctx, err, last)
		case !adapter.Uncertain(err):
			c.leave(doubt)
			return nil, err
		}
		last = err
	}
}

// stand makes a ballot of the entry. If the session is over by now, the entry is left like any other.
func (c *cast) stand(entry Entry, doubt bool) (*ballot, error) {
	s := c.session
	entry.Election = c.election
	b := newBallot(s, entry, c.nonce)
	b.entry.Place.Nonces = nil // it may be long
	b.doubt = doubt
	s.engine.mu.Lock()
	over := s.over
	if !over {
		s.ballots[b] = struct{}{}
	}
	s.engine.mu.Unlock()
	if over {
		c.leave(true)
		return nil, errAgain
	}
	c.release()
	b.enter()
	for _, nonce := range entry.Place.Nonces {
		s.stray(c.election, nonce)
	}
	return b, nil
}

// leave ends a cast that made no ballot. If there may be an entry, an orphan voids it, and keeps the slot until then.
func (c *cast) leave(doubt bool) {
	end := func() {
		c.session.forget(nil, c.nonce.Name)
		c.release()
	}
	if !doubt || !c.session.engine.life.Go(func() { c.void(); end() }) {
		end()
	}
}

// void removes the entry of the cast, now or when it comes to be.
func (c *cast) void() {
	c.session.clean(c.election+" "+c.nonce.Name, func(ctx context.Context) error {
		return c.session.engine.outage.send(ctx, func() error { return c.session.driver.Void(ctx, c.election, c.nonce) })
	})
}

func (c *cast) release() {
	c.session.engine.slots <- c.slot
	c.session.done()
}

// stray voids an entry of this session whose nonce is this store's and belongs to no ballot: the service was restored
// from a snapshot. Stores that share a caller's connection share its session, but no nonces.
func (s *session) stray(election, nonce string) {
	if !strings.HasPrefix(nonce, s.engine.id) {
		return
	}
	s.engine.mu.Lock()
	_, known := s.nonces[nonce] // in use, or being voided
	if known || s.over {
		s.engine.mu.Unlock()
		return
	}
	s.begin(nonce)
	s.engine.mu.Unlock()
	s.background(func(slot *slot) {
		c := &cast{session: s, slot: slot, election: election}
		c.name(nonce)
		c.nonce.Stray = true
		c.void() // clean knows whether the session still has the entry
		s.forget(nil, nonce)
	})
}

// background carries out a removal that has begun, in its turn among the casts: removals keep up with them. When the
// store is stopped, each slot is given back, and clean sends nothing any more.
func (s *session) background(remove func(*slot)) {
	e := s.engine
	if !e.life.Go(func() {
		defer s.done()
		slot := <-e.slots
		remove(slot)
		e.slots <- slot
	}) {
		s.done()
	}
}
