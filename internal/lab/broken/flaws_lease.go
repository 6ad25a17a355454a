package broken

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// leaseFlaws are mistakes with sessions and their leases.
var leaseFlaws = []Flaw{
	{"G1", "counts the lease from when the answer to a renewal came", func(s *Store) {
		s.proof = func(p engine.Proof) engine.Proof { p.Sent = store.Now(); return p }
	}},
	{"G1", "renews the lease when it sends a renewal, before the answer has come", func(s *Store) {
		s.keep = func(ctx context.Context, right engine.Session, renewed func(engine.Proof)) error {
			return right.Keep(ctx, func(p engine.Proof) {
				renewed(p)
				time.AfterFunc(s.ttl/4-p.Sent.Since(time.Now()), func() { p.Sent = store.Now(); renewed(p) })
			})
		}
	}},
	{"G1", "takes no grace off the lease", func(s *Store) {
		s.proof = func(p engine.Proof) engine.Proof { p.Valid = s.ttl; return p }
	}},
	{"G1", "gives a lease that does not end", func(s *Store) {
		s.proof = func(p engine.Proof) engine.Proof { p.Valid = 1000 * time.Hour; return p }
	}},
	{"G3", "takes no answer to a renewal that comes later than a tenth of the TTL", func(s *Store) {
		s.proof = func(p engine.Proof) engine.Proof {
			if p.Sent.Since(time.Now()) > s.ttl/10 {
				p.Valid = 0
			}
			return p
		}
	}},
	{"G1", "goes on with the same lease in the next session", func(s *Store) { ownLease(s, false) }},
	{"G1", "lets go of the session and does not end the lease", func(s *Store) { ownLease(s, true) }},
	{"G1", "ends in Close the ballots that it has, and forgets one that is being cast", func(s *Store) {
		var closing atomic.Bool
		s.wrong["Close"] = func(ctx context.Context, right method) error {
			closing.Store(true)
			return right(ctx)
		}
		s.wrong["Cast"] = func(ctx context.Context, right method) error {
			defer adapter.PauseFor(ctx, s.ttl/500)
			return right(ctx)
		}
		s.ballot = func(b *ballot) {
			if closing.Load() {
				b.Ballot = forgotten{b.Ballot}
			}
		}
	}},
	{"G3", "takes the answer that a session does not exist for a confirmation", func(s *Store) {
		s.keep = func(ctx context.Context, right engine.Session, renewed func(engine.Proof)) error {
			err := right.Keep(ctx, renewed)
			for ; err == nil && ctx.Err() == nil; adapter.PauseFor(ctx, s.ttl/4) {
				if sent := store.Now(); s.driver.Confirm(ctx) == nil {
					renewed(engine.Proof{Sent: sent, Valid: s.valid, Connection: 1})
				}
			}
			return errors.Join(err, context.Cause(ctx))
		}
		s.says(engine.ErrOver, engine.Answered(store.ErrUnavailable), "Enter")
	}},
	{"G3", "opens no second session", func(s *Store) {
		var opened atomic.Bool
		s.wrong["Open"] = func(ctx context.Context, right method) error {
			if opened.Load() {
				<-ctx.Done()
			}
			err := right(ctx)
			opened.Store(err == nil)
			return err
		}
	}},
	{"G3", "leaves the session to expire in Close", func(s *Store) { s.drops("End") }},
}

// forgotten is a ballot that does not hear of its end.
type forgotten struct{ store.Ballot }

func (forgotten) Err() error { return nil }

// ownLease gives ballots a lease that nothing ends: one for each session, or one for all.
func ownLease(s *Store, each bool) {
	var lease atomic.Pointer[store.Lease]
	lease.Store(store.NewLease())
	s.wrong["Open"] = func(ctx context.Context, right method) error {
		if each {
			lease.Store(store.NewLease())
		}
		return right(ctx)
	}
	s.proof = func(p engine.Proof) engine.Proof { lease.Load().Renew(p.Sent, p.Valid); return p }
	s.ballot = func(b *ballot) { b.lease = lease.Load() }
}
