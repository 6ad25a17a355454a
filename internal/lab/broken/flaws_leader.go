package broken

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// leaderFlaws are mistakes with the acknowledgement of a leader, and with what is told of it.
var leaderFlaws = []Flaw{
	{"G5", "acknowledges as soon as a ballot is first", func(s *Store) {
		s.ballot = func(b *ballot) {
			b.wait = func(ctx context.Context) error {
				err := b.Ballot.Wait(ctx)
				if err == nil {
					_, err = b.Ballot.Acknowledge(ctx, b.value)
				}
				return err
			}
		}
	}},
	{"G5", "lets a ballot acknowledge that is not first", func(s *Store) { s.says(store.ErrNotFirst, nil, "Acknowledge") }},
	{"G5", "takes an acknowledgement for made that was refused since the ballot is gone", func(s *Store) {
		s.wrong["Put"] = func(ctx context.Context, right method) error {
			err := right(ctx)
			if errors.Is(err, engine.ErrGone) || errors.Is(context.Cause(ctx), store.ErrLost) {
				return nil
			}
			return err
		}
	}},
	{"G5", "refuses to acknowledge again", func(s *Store) {
		s.acknowledging(func(ctx context.Context, b *ballot, value string, again bool) (store.Leader, error) {
			if again {
				return store.Leader{}, errPlain
			}
			return b.Ballot.Acknowledge(ctx, value)
		})
	}},
	{"G5", "trims spaces from values", func(s *Store) {
		s.acknowledging(func(ctx context.Context, b *ballot, value string, _ bool) (store.Leader, error) {
			return b.Ballot.Acknowledge(ctx, strings.TrimSpace(value))
		})
	}},
	{"G5", "gives each acknowledgement of a ballot the same revision", func(s *Store) {
		s.acknowledging(func(ctx context.Context, b *ballot, value string, _ bool) (store.Leader, error) {
			l, err := b.Ballot.Acknowledge(ctx, value)
			l.Revision = b.token
			return l, err
		})
	}},
	{"G5", "withdraws the ballot and leaves its acknowledgement", func(s *Store) { s.keepsLeaders() }},
	{"G5", "does not bind the acknowledgement to the session", func(s *Store) {
		s.keepsLeaders()
		s.withdrawing(func(b *ballot) { delete(s.service.leaders, b.election) })
	}},
	{"G5", "removes whatever acknowledgement there is with a ballot", func(s *Store) {
		s.watchLeader.tells(func(election string, n *engine.News) {
			s.service.locked(func() {
				if n.State != nil && n.State.Leader.Revision <= s.service.removed[election] {
					n.State = &engine.State{}
				}
			})
		})
		s.withdrawing(func(b *ballot) { s.service.removed[b.election] = s.service.leaders[b.election].Revision })
	}},
	{"G5", "shows the first in line as the leader before it has acknowledged", func(s *Store) {
		s.enter = func(ctx context.Context, right engine.Session, election string, n engine.Nonce, value string) (engine.Entry, error) {
			e, err := right.Enter(ctx, election, n, value)
			if err == nil && e.Place.Nearest == "" {
				_, err = right.Acknowledge(ctx, e, value)
			}
			return e, err
		}
	}},
	{"G5", "reads the leader from a replica that is behind every second time", func(s *Store) {
		var mu sync.Mutex
		reads, last, before := 0, map[string]store.Leader{}, map[string]store.Leader{}
		s.observe = func(ctx context.Context, election string, prev *store.Known) (store.Known, error) {
			known, err := s.Store.Observe(ctx, election, prev)
			mu.Lock()
			defer mu.Unlock()
			if known.Leader != last[election] {
				before[election], last[election] = last[election], known.Leader
			}
			if reads++; prev == nil && reads%2 == 0 {
				known.Leader = before[election]
			}
			return known, err
		}
	}},

	{"", "tells of AsOf first, and of the news of the leader before it after that", func(s *Store) {
		s.watchLeader = func(ctx context.Context, election string, tell engine.Tell) (engine.Watch, error) {
			var held *engine.State
			read := false
			return s.driver.WatchLeader(ctx, election, func(n engine.News) {
				if n.State != nil && read {
					held = n.State
					return
				}
				read = true
				tell(n)
				if late := held; n.State == nil && late != nil {
					time.AfterFunc(s.ttl/1000, func() { tell(engine.News{State: late}) })
					held = nil
				}
			})
		}
	}},
	{"", "counts AsOf from when the answer came", func(s *Store) {
		s.watchLeader.tells(func(_ string, n *engine.News) {
			if !n.AsOf.IsZero() {
				n.AsOf = time.Now()
			}
		})
	}},
	{"", "never advances AsOf", func(s *Store) { s.keepsAsOf(0) }},
	{"", "does not advance AsOf any more once there was an outage", func(s *Store) { s.keepsAsOf(s.ttl / 2) }},
	{"", "returns from Observe with what the caller knows", func(s *Store) {
		s.observe = func(ctx context.Context, election string, prev *store.Known) (store.Known, error) {
			if prev == nil {
				return s.Store.Observe(ctx, election, nil)
			}
			soon, cancel := context.WithTimeout(ctx, s.ttl/1000)
			defer cancel()
			known, err := s.Store.Observe(soon, election, prev)
			if soon.Err() != nil && ctx.Err() == nil { // any other error comes at once, again and again
				return *prev, nil
			}
			return known, err
		}
	}},
	{"", "returns an error from Observe in an outage", func(s *Store) {
		s.wrong["Observe"] = func(ctx context.Context, right method) error {
			ctx, cancel := context.WithTimeoutCause(ctx, s.ttl*2/3, store.ErrUnavailable) // else AsOf would have advanced
			defer cancel()
			return right(ctx)
		}
	}},
}

// acknowledging replaces Acknowledge of ballots. again: the ballot has acknowledged before.
func (s *Store) acknowledging(f func(ctx context.Context, b *ballot, value string, again bool) (store.Leader, error)) {
	s.ballot = func(b *ballot) {
		again := false
		b.acknowledge = func(ctx context.Context, value string) (store.Leader, error) {
			l, err := f(ctx, b, value, again)
			again = true
			return l, err
		}
	}
}

// withdrawing calls f when a ballot is being withdrawn.
func (s *Store) withdrawing(f func(b *ballot)) {
	s.ballot = func(b *ballot) {
		b.withdraw = func(ctx context.Context) error {
			s.service.locked(func() { f(b) })
			return b.Ballot.Withdraw(ctx)
		}
	}
}

// keepsLeaders shows a leader until another one has acknowledged.
func (s *Store) keepsLeaders() {
	s.watchLeader.tells(func(election string, n *engine.News) {
		s.service.locked(func() {
			if n.State != nil && n.State.Leader == (store.Leader{}) {
				n.State = &engine.State{Leader: s.service.leaders[election]}
			}
		})
	})
}

// keepsAsOf makes Observe return for another leader alone, once AsOf has advanced by more than that at once.
func (s *Store) keepsAsOf(after time.Duration) {
	keeps := false
	s.observe = func(ctx context.Context, election string, prev *store.Known) (store.Known, error) {
		known, err := s.Store.Observe(ctx, election, prev)
		for prev != nil && err == nil && known.Leader == prev.Leader {
			if keeps = keeps || known.AsOf.Sub(prev.AsOf) > after; !keeps {
				break
			}
			known, err = s.Store.Observe(ctx, election, &known)
		}
		return known, err
	}
}
