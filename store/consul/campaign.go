package consul

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/hashicorp/consul/api"
)

// refusalLimit is for how long Campaign tries again though it is refused, be it not by Consul, or for an outage.
const refusalLimit = time.Second

// Campaign implements store.Store. With a session open it takes one round trip: one transaction makes the ballot and
// lists those that stand. Where the service can't be reached for longer than two TTLs it gives up, so that its caller
// can say so, and try again.
func (s *Store) Campaign(ctx context.Context, election, value string) (store.Ballot, error) {
	if err := errors.Join(store.CheckElection(election), store.CheckValue(value)); err != nil {
		return nil, err
	}
	ctx, done, err := s.life.Call(ctx)
	if err != nil {
		return nil, s.life.Fail("campaign", election, err)
	}
	defer done()
	give := max(2*s.config.TTL, 10*time.Second) // at round trips of TTL/4 it takes more than a TTL
	began := time.Now()
	patience, cancel := context.WithTimeoutCause(ctx, give, fmt.Errorf("%w: no answer for %v", store.ErrUnavailable, give))
	defer cancel()
	for {
		b, err := s.cast(patience, election, value)
		switch {
		case err == nil:
			return b, nil
		case ctx.Err() != nil || !adapter.Uncertain(err) || errors.Is(err, errHopeless):
			return nil, s.life.Fail("campaign", election, err)
		case time.Since(began) > refusalLimit && (isOdd(err) || errors.Is(err, errAway)):
			return nil, s.life.Fail("campaign", election, err)
		case patience.Err() != nil:
			return nil, s.life.Fail("campaign", election, s.withTrouble(err))
		}
		adapter.Pause(patience)
	}
}

// withTrouble adds what went wrong last to an error: in words alone where that can't be cured, for it may have been.
func (s *Store) withTrouble(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trouble == nil {
		return err
	}
	if store.Refused(s.trouble) {
		return fmt.Errorf("%w: %v", err, s.trouble)
	}
	return fmt.Errorf("%w: %w", err, s.trouble)
}

// note takes note of what went wrong and returns it.
func (s *Store) note(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = err
	return err
}

// cast casts one ballot and takes its place in the queue.
func (s *Store) cast(ctx context.Context, election, value string) (*ballot, error) {
	sess, err := s.openSession(ctx)
	if err != nil {
		if ctx.Err() == nil {
			_ = s.note(err)
		}
		return nil, adapter.NotCast(err)
	}
	b := &ballot{
		Ballot: adapter.NewBallot(s.life, election), store: s, session: sess, name: sess.id + "-" + s.nonces.next(sess.id),
	}
	s.mu.Lock()
	s.names[b.name] = struct{}{}
	s.mu.Unlock()
	pairs, err := b.enter(ctx, value)
	if err == nil {
		if err = b.join(pairs); err != nil {
			s.orphans.Add(b.orphan())
		}
	}
	if err != nil {
		s.forget(b)
		return nil, err
	}
	s.mu.Lock()
	s.ballots[b] = struct{}{}
	s.mu.Unlock()
	if !s.life.Go(b.run) || s.life.Calls.Err() != nil { // the session is destroyed, and the ballot with it
		return nil, store.ErrClosed
	}
	return b, nil
}

// forget is called when a ballot is lost, or was never cast.
func (s *Store) forget(b *ballot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ballots, b)
	delete(s.names, b.name)
}

// enter makes the ballot's key and returns those of all ballots. The transaction can be sent again when its outcome is
// unknown: it locks the same key for the same session. Since the first may be carried out after the second, and even
// after the ballot has been withdrawn, it makes sure that the ballot has not been declared void; whoever removes a
// ballot of which a request may be on its way declares it that. See orphan.
func (b *ballot) enter(ctx context.Context, value string) (api.KVPairs, error) {
	s := b.store
	for {
		pairs, err := s.commit(ctx,
			&api.KVTxnOp{Verb: api.KVCheckNotExists, Key: s.layout.void(b.Election, b.name)},
			&api.KVTxnOp{Verb: api.KVLock, Key: b.key(), Value: []byte(value), Session: b.session.id},
			&api.KVTxnOp{Verb: api.KVGetTree, Key: s.layout.dir(b.Election)},
		)
		r := refusalIn(err)
		switch {
		case err == nil:
			return pairs, nil
		case r != nil && r.says("invalid session"):
			s.confirmNow() // it has ended, and is to be found out
			return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, r)
		case errors.Is(err, store.ErrUnknownOutcome):
			b.doubtful = true
			if ctx.Err() == nil && b.session.ctx.Err() == nil {
				_ = s.note(err)
				adapter.Pause(ctx)
				continue
			}
			s.orphans.Add(b.orphan())
			return nil, err
		case errors.Is(err, store.ErrUnavailable) && b.doubtful:
			if ctx.Err() == nil && b.session.ctx.Err() == nil {
				adapter.Pause(ctx)
				continue
			}
			s.orphans.Add(b.orphan())
			return nil, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
		default:
			if b.doubtful {
				s.orphans.Add(b.orphan())
			}
			if errors.Is(err, store.ErrUnavailable) {
				_ = s.note(err)
			}
			return nil, err
		}
	}
}
