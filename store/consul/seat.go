package consul

import (
	"context"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/hashicorp/consul/api"
)

// takeSeat waits, if there is a lock-delay, until a leader that did not resign has been gone for that long.
//
// Consul's lock-delay applies to the name of a key: the key can't be locked for that time after a session that held it
// has ended. Ballots have names of their own, so it never applies to them. So a leader locks a key that all share, the
// seat. A leader that resigns unlocks it. If the leader's session ends, Consul refuses the lock to every session for
// the delay.
//
// If only the leader's ballot was deleted, its session still holds the seat until that leader has noticed. If it never
// does, its lock is replaced after the delay: the ballot that is first stands, so no other's lock is valid.
func (b *ballot) takeSeat() {
	s := b.store
	key := s.layout.seat(b.Election)
	wait := min(max(s.config.LockDelay/20, 10*time.Millisecond), time.Second)
	var taken time.Time // since when another session has held it
	for b.Context().Err() == nil {
		ops := []*api.KVTxnOp{{Verb: api.KVCheckSession, Key: b.key(), Session: b.session.id}}
		if !taken.IsZero() && time.Since(taken) >= s.config.LockDelay {
			ops = append(ops, &api.KVTxnOp{Verb: api.KVDelete, Key: key})
		}
		ops = append(ops, &api.KVTxnOp{Verb: api.KVLock, Key: key, Session: b.session.id})
		b.ack.try(func(a *ack) { a.seated = true })
		_, err := s.commit(b.Context(), ops...)
		r := refusalIn(err)
		switch {
		case err == nil:
			return
		case r != nil && r.failed(0):
			if b.own.refresh(b.Context()) == nil && !stands(b.key(), b.own.see().entry) {
				return // run loses the ballot
			}
		case r != nil && r.says("already held"):
			if taken.IsZero() {
				taken = time.Now()
			}
		case r == nil && !b.bears(err):
			return
		}
		adapter.PauseFor(b.Context(), wait)
	}
}

// leaveSeats removes the ballots of who leads before the session is destroyed: a store that is closed has resigned.
func (s *Store) leaveSeats(ctx context.Context, ballots []*ballot) {
	var left sync.WaitGroup
	turns := make(chan struct{}, burst)
	for _, b := range ballots {
		if o := b.orphan(); o.seated {
			turns <- struct{}{}
			left.Go(func() {
				defer func() { <-turns }()
				_ = s.remove(ctx, o)
			})
		}
	}
	left.Wait()
}
