package consul

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/hashicorp/consul/api"
)

// orphan is a ballot that nobody wants any more and that may still stand, in the way of those behind it.
type orphan struct {
	*ballot
	tried    bool   // it may have acknowledged
	seated   bool   // it may have taken the seat
	revived  bool   // it has come back
	revision uint64 // of its acknowledgement; 0 where it is not known

	denied time.Time // since when its removal has been denied; zero if it is not
}

// orphan is what has to be removed when the ballot is given up. remove has to follow.
func (b *ballot) orphan() orphan {
	b.leave()
	o := orphan{ballot: b}
	b.ack.try(func(a *ack) { o.tried, o.seated, o.revision = a.tried, a.seated, a.revision })
	return o
}

// leave says that the ballot is to be removed, so that it is not taken for one that has come back; left, that it is gone.
func (b *ballot) leave() {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	b.session.leaving[b.name] = struct{}{}
}

func (b *ballot) left() {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	delete(b.session.leaving, b.name)
}

// Over implements adapter.Orphan.
func (o orphan) Over() bool {
	select {
	case <-o.session.gone:
		return true
	default:
		return false
	}
}

// abandonFor gives up the session of an orphan that may not be removed for a TTL.
func (s *Store) abandonFor(o orphan, err error) {
	if o.denied.IsZero() {
		o.denied = time.Now()
	}
	if errors.Is(err, store.ErrDenied) && time.Since(o.denied) < s.config.TTL {
		adapter.Pause(s.life.Background)
		s.orphans.Add(o)
		return
	}
	s.config.Logger.Warn("a ballot can't be removed, so the session ends", "store", s.life.Name, "key", o.key(), "error", err)
	s.abandon(o.session, fmt.Errorf("a ballot could not be removed: %v", err)) // in words: others were not refused
}

// remove removes an orphan with its acknowledgement and returns nil once both are known to be gone: in one transaction,
// made from what is known of them, and where that is refused, from what is read.
func (s *Store) remove(ctx context.Context, o orphan) error {
	known := map[string]entry{s.layout.ack(o.Election): {exists: o.revision != 0, modify: o.revision, session: o.session.id}}
	standing, trusted, told := true, !o.seated && !o.revived, false
	for {
		if o.Over() {
			return nil
		}
		if trusted {
			_, err := s.commit(ctx, o.removal(known, standing)...)
			r := refusalIn(err)
			if err == nil {
				o.left()
			}
			if r == nil || errors.Is(err, store.ErrDenied) {
				return err
			}
			if r.says("invalid session") { // it took everything with it
				return nil
			}
			adapter.PauseFor(ctx, time.Millisecond)
		}
		var err error
		if known, err = s.readAllOf(ctx, s.layout.ack(o.Election), s.layout.seat(o.Election), o.key()); err != nil {
			return err
		}
		standing, trusted = stands(o.key(), known[o.key()]), true
		if o.revived && standing && !told {
			told = true
			s.config.Logger.Warn("a withdrawn ballot has come back, as after a restore: it is removed", "store", s.life.Name, "key", o.key())
		}
		if (!standing || o.revived) && s.othersAcknowledged(o) && o.revision == 0 {
			o.tried, o.seated = false, false // what is there may be that of another ballot of this session
		}
	}
}

// othersAcknowledged reports whether an acknowledgement may be that of another ballot of the same session, which
// stands.
func (s *Store) othersAcknowledged(o orphan) bool {
	s.mu.Lock()
	left := slices.Collect(maps.Keys(s.ballots))
	s.mu.Unlock()
	return slices.ContainsFunc(left, func(b *ballot) bool {
		same := b != o.ballot && b.Election == o.Election && b.session == o.session && b.Err() == nil
		b.ack.try(func(a *ack) { same = same && (a.tried || a.seated) })
		return same
	})
}

// removal returns the operations that remove an orphan. Those on the acknowledgement and the seat touch nobody else's:
// while the ballot stands, what our session holds is the ballot's; otherwise only what it is known to have made.
func (o orphan) removal(known map[string]entry, standing bool) []*api.KVTxnOp {
	l := o.store.layout
	var ops []*api.KVTxnOp
	if o.doubtful {
		ops = append(ops, &api.KVTxnOp{Verb: api.KVLock, Key: l.void(o.Election, o.name), Session: o.session.id})
	}
	if standing && (o.tried || o.seated) {
		ops = append(ops, &api.KVTxnOp{Verb: api.KVCheckSession, Key: o.key(), Session: o.session.id})
	}
	own := func(key string, may bool, made uint64) {
		e := known[key]
		switch {
		case !may:
		case !e.exists:
			if standing { // one may be on its way
				ops = append(ops, &api.KVTxnOp{Verb: api.KVCheckNotExists, Key: key})
			}
		case e.session == o.session.id && (standing || made == 0 || made == e.modify):
			ops = append(ops,
				&api.KVTxnOp{Verb: api.KVCheckIndex, Key: key, Index: e.modify},
				&api.KVTxnOp{Verb: api.KVDelete, Key: key},
			)
		}
	}
	own(l.ack(o.Election), o.tried, o.revision)
	own(l.seat(o.Election), o.seated, 0)
	return append(ops, &api.KVTxnOp{Verb: api.KVDelete, Key: o.key()})
}

// readAllOf reads keys in one transaction.
func (s *Store) readAllOf(ctx context.Context, keys ...string) (map[string]entry, error) {
	var ops []*api.KVTxnOp
	for _, key := range keys {
		ops = append(ops, &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: key})
	}
	pairs, err := s.commit(ctx, ops...)
	if err != nil {
		return nil, err
	}
	if len(pairs) < len(keys) {
		return nil, fmt.Errorf("%w: the token may not read %q, it lacks key:read", store.ErrDenied, keys)
	}
	known := map[string]entry{}
	for _, p := range pairs {
		known[p.Key] = entryOf(p)
	}
	return known, nil
}
