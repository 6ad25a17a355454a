package engine

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/teller"
	"github.com/go-leadership/leadership/store"
)

// claim is a nonce that might have an entry in a session: that of a cast under way, of a ballot, or of an orphan, which
// is a cast whose caller has gone. It is settled once the entry is known to be gone for good. The end of the session
// takes all its entries along, and no claim outlives it.
type claim struct {
	session  *session
	election string
	nonce    Nonce
	ballot   *ballot // guarded by the engine's mu, as is doubt; nil: there is none, or not yet
	doubt    bool    // a request for the entry had no answer
	refused  bool    // guarded by the engine's mu: the service refuses to remove the entry
}

// queue is what a session knows of an election in which it has cast a ballot.
type queue struct {
	election  string
	claims    int           // that are not settled
	doubts    int           // how many of them are in doubt
	refusals  int           // how many of them can't be removed
	refusal   error         // why, or nil: nothing is cast then
	turn      *list.Element // in the session's rota
	unclaimed *list.Element // in the session's list, if claims is 0
}

// mostDoubts is how many outcomes in one election may be unknown while new ballots are cast there. A request whose answer
// is on its way is no doubt.
const mostDoubts = 3

// newClaim waits until not too much is in doubt in the election, and then for a slot. Those who wait for a slot get one in
// the order in which they came. errAgain: the session is over, too much is in doubt by
// then, or a removal was refused.
func (s *session) newClaim(ctx context.Context, election string) (*claim, *slot, error) {
	e := s.engine
	for {
		e.mu.Lock()
		doubts, changed := 0, s.changed
		var refusal error
		if q := s.queues[election]; q != nil {
			doubts, refusal = q.doubts, q.refusal
		}
		e.mu.Unlock()
		if refusal != nil {
			return nil, nil, refusal
		}
		if doubts <= mostDoubts {
			break
		}
		select {
		case <-changed:
		case <-s.ctx.Done():
			return nil, nil, errAgain
		case <-ctx.Done():
			why := fmt.Errorf("%w: the outcomes of %d requests in this election are unknown", store.ErrUnavailable, doubts)
			return nil, nil, adapter.Ended(ctx, nil, why)
		}
	}
	select {
	case free := <-e.slots:
		if c := s.claim(election, free); c != nil {
			return c, free, nil
		}
		e.slots <- free
		return nil, nil, errAgain
	case <-ctx.Done():
		return nil, nil, adapter.Ended(ctx, nil, e.gate.err())
	}
}

// claim makes a claim with a new nonce, or returns nil if the session is over, too much is in doubt, or a removal was
// refused.
func (s *session) claim(election string, free *slot) *claim {
	e := s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	q := s.queue(election)
	if s.over || q.doubts > mostDoubts || q.refusal != nil {
		return nil
	}
	s.claimed(q)
	e.casts++
	free.turn++
	c := &claim{session: s, election: election}
	c.nonce = Nonce{Name: fmt.Sprintf("%s%08x", e.id, e.casts), Slot: free.number, Turn: free.turn}
	s.claims[c.nonce.Name] = c
	return c
}

// inDoubt reports whether a request for the entry had no answer, and it is not settled.
func (c *claim) inDoubt() bool {
	c.session.engine.mu.Lock()
	defer c.session.engine.mu.Unlock()
	return c.doubt
}

// settle notes that the entry is known to be gone for good.
func (c *claim) settle() {
	c.doubts(false)
	s := c.session
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	c.passed()
	delete(s.claims, c.nonce.Name)
	s.settled(s.queues[c.election])
}

// doubts notes whether the outcome of a request for the entry is unknown.
func (c *claim) doubts(doubt bool) {
	s := c.session
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	switch {
	case doubt == c.doubt:
		return
	case doubt:
		s.queues[c.election].doubts++
	default:
		s.queues[c.election].doubts--
		close(s.changed)
		s.changed = make(chan struct{})
	}
	c.doubt = doubt
}

// remove removes the entry, since those behind it would never lead: again and again, until the entry or the session is
// gone. note is told why an attempt failed, and whether the service has refused it: see refuse.
func (c *claim) remove(what string, request func(context.Context) error, note func(err error, refused bool)) {
	s := c.session
	var denied denials
	var again teller.Reminder
	var wait adapter.Retries
	var pause time.Duration // after a refusal
	for s.ctx.Err() == nil {
		err := s.engine.gate.send(s.ctx, plain, func() error { return request(s.ctx) })
		switch {
		case err == nil:
			c.settle()
			return
		case errors.Is(err, ErrOver):
			s.ended()
			return
		case s.ctx.Err() != nil:
			return
		}
		if errors.Is(err, store.ErrUnknownOutcome) {
			c.doubts(true) // until it is settled: that a later request was not sent says nothing of this one
		}
		borne := denied.bears(err, s.engine.settings.DenialTimeout)
		if adapter.Uncertain(err) || borne {
			note(err, false)
			wait.Pause(s.ctx)
			continue
		}
		note(err, true)
		c.refuse(what, err, &again)
		pause = min(max(100*time.Millisecond, 2*pause), refusedPause)
		adapter.PauseFor(s.ctx, pause)
	}
}
