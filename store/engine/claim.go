package engine

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/teller"
)

// claim is a nonce that might have an entry in a session. It is of a cast under way, of a ballot, or of an orphan: a cast
// whose caller has gone. A claim is settled once the entry is known to be gone for good. No claim outlives its session,
// whose end removes all its entries.
type claim struct {
	session  *session
	election string
	nonce    Nonce
	slot     *slot   // held until the outcome of Enter is known, or the orphan is void
	ballot   *ballot // guarded by the engine's mu, as is refused; nil: there is none, or not yet
	refused  bool    // the service refuses to remove the entry
}

// record is what a session knows of an election in which it has cast a ballot.
type record struct {
	election  string
	claims    int           // that are not settled
	refusals  int           // how many of them can't be removed
	refusal   error         // why, or nil: nothing is cast then
	inRota    *list.Element // in the session's rota
	unclaimed *list.Element // in the session's list, if claims is 0
}

// newClaim waits for a slot, and makes a claim with a new nonce. Those who wait get a slot in the order in which they
// came. errAgain: the session is finished. It fails if a removal in the election was refused: see refuse.
func (s *session) newClaim(ctx context.Context, election string) (*claim, error) {
	select {
	case free := <-s.engine.slots:
		c, err := s.claim(election, free)
		if err != nil {
			s.engine.slots <- free
		}
		return c, err
	case <-ctx.Done():
		return nil, adapter.Ended(ctx, nil, s.engine.gate.err())
	}
}

func (s *session) claim(election string, free *slot) (*claim, error) {
	e := s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.finished {
		return nil, errAgain
	}
	r := s.record(election)
	if r.refusal != nil {
		return nil, r.refusal
	}
	s.claimed(r)
	e.casts++
	free.turn++
	c := &claim{session: s, election: election, slot: free}
	c.nonce = Nonce{Name: fmt.Sprintf("%s%08x", e.id, e.casts), Slot: free.number, Turn: free.turn}
	s.claims[c.nonce.Name] = c
	return c, nil
}

// settle ends a claim whose entry is known to be gone for good.
func (c *claim) settle() {
	s := c.session
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	c.passed()
	delete(s.claims, c.nonce.Name)
	s.settled(s.records[c.election])
}

// remove removes the entry, which would block the queue for good. It tries again until the entry or the session is gone.
// failed receives why an attempt failed, and whether the service has refused it: see refuse.
func (c *claim) remove(what string, request func(context.Context) error, failed func(err error, refused bool)) {
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
		borne := denied.bears(err, s.engine.settings.DenialTimeout)
		if adapter.Uncertain(err) || borne {
			failed(err, false)
			wait.Pause(s.ctx)
			continue
		}
		failed(err, true)
		c.refuse(what, err, &again)
		pause = min(max(100*time.Millisecond, 2*pause), refusedPause)
		adapter.PauseFor(s.ctx, pause)
	}
}
