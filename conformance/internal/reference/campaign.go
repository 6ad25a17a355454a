package reference

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// Cast implements store.Store.
func (s *Store) Cast(ctx context.Context, election, value string) (store.Ballot, error) {
	if err := errors.Join(store.CheckElection(election), store.CheckValue(value)); err != nil && !s.has(NamesUnchecked) {
		return nil, err
	}
	if s.has(CampaignIgnoresContext) {
		ctx = s.service.over
	}
	ctx, done, err := s.life.Call(ctx)
	if err == nil {
		defer done()
		var b *ballot
		if b, err = s.campaign(ctx, election, s.altered(value)); err == nil {
			return b, nil
		}
	}
	return nil, s.life.Fail("campaign", election, err)
}

func (s *Store) altered(value string) string {
	if s.has(ValueAltered) {
		return strings.TrimSpace(value)
	}
	return value
}

// campaign casts one ballot, again with the same name if the outcome is unknown, so that there is never a second.
func (s *Store) campaign(ctx context.Context, election, value string) (*ballot, error) {
	name := s.name(election, value)
	var snapshot []*key
	for {
		sess, err := s.awaitSession(ctx)
		if err != nil {
			return nil, err
		}
		var k *key
		err = s.line.call(ctx, func() {
			switch s.service.flaw {
			case TokenBeforeBallot:
				k = s.createLate(ctx, sess.id, name, value)
			case AheadBeforeBallot:
				snapshot, _ = s.service.list(dir(name))
				snapshot = slices.DeleteFunc(snapshot, func(k *key) bool { return k.name == name }) // cast before, without an answer
				adapter.PauseFor(ctx, s.ttl/2000)                                                   // all that are cast at the same moment read first
				k = s.service.create(sess.id, name, value)
			default:
				k = s.service.create(sess.id, name, value)
			}
		})
		switch {
		case ctx.Err() != nil:
			if !s.has(AbandonedCampaignStands) {
				s.life.Go(func() { s.clearAway(sess, election, name) })
			}
			return nil, context.Cause(ctx)
		case err != nil:
			if s.has(NoNonce) {
				name = s.name(election, value)
			}
			continue
		case k == nil: // the session is over and the store does not know yet
			select {
			case <-sess.over.Done():
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		b := &ballot{store: s, session: sess, election: election, value: value, key: k, number: s.count()}
		b.asked, b.snapshot = make(chan struct{}), snapshot
		b.ctx, b.end = context.WithCancelCause(sess.over)
		if !s.life.Go(b.watch) && !s.has(CloseForgetsCampaign) {
			return nil, store.ErrClosed
		}
		if s.has(GoroutineOfBallot) {
			s.service.leave()
		}
		return b, nil
	}
}

// createLate takes a token, and then makes the ballot visible. Of many that are cast at the same moment, the lowest token
// is held back until the others have been read.
func (s *Store) createLate(ctx context.Context, session uint64, name, value string) *key {
	token := s.service.reserve(dir(name))
	adapter.PauseFor(ctx, s.ttl/2000)
	if s.service.crowded(dir(name), token) {
		adapter.PauseFor(ctx, s.ttl/200)
	}
	return s.service.createWith(session, name, value, token)
}

// name returns the key of a new ballot, which no other ballot ever has.
func (s *Store) name(election, value string) string {
	switch s.service.flaw {
	case BallotShared:
		return s.directory(election) + fmt.Sprint("store", s.number)
	case RemovalByName:
		return s.directory(election) + fmt.Sprint("store", s.number, "-", s.slot(election, value))
	}
	return s.directory(election) + falling(s.service.number())
}

// slot takes the lowest number that no ballot has now and that only ballots with this value have had. Ballots with
// other values have other numbers. So names do not depend on the scheduler.
func (s *Store) slot(election, value string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.slots[election]
	i := slices.Index(list, slot{value: value})
	if i < 0 {
		i, list = len(list), append(list, slot{})
	}
	list[i] = slot{value: value, taken: true}
	s.slots[election] = list
	return i
}

// slot is a number that names of ballots end with.
type slot struct {
	value string
	taken bool
}

// release gives the slot of a ballot back.
func (s *Store) release(b *ballot) {
	var number uint64
	var i int
	if _, err := fmt.Sscanf(b.key.name[len(dir(b.key.name)):], "store%d-%d", &number, &i); err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.slots[b.election][i].taken = false
	}
}

func (s *Store) count() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cast++
	return s.cast
}

// clearAway removes the ballot of a campaign that was given up, if there is one.
func (s *Store) clearAway(sess *clientSession, election, name string) {
	if s.has(AbandonedOneByOne) {
		s.removals <- struct{}{}
		defer func() { <-s.removals }()
	}
	s.remove(sess, election, name, 0)
}
