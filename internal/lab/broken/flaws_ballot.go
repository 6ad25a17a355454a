package broken

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// ballotFlaws are mistakes with ballots: their tokens, their order, and how they come and go.
var ballotFlaws = []Flaw{
	{"G2", "takes tokens from a counter of the election, which goes when its keys are removed", func(s *Store) {
		s.ballot = func(b *ballot) {
			s.service.locked(func() {
				if s.service.base[b.election] == 0 {
					s.service.base[b.election] = b.token - 1
				}
				b.token -= s.service.base[b.election]
			})
		}
	}},
	{"G2", "takes tokens from a counter of its own", func(s *Store) {
		var count atomic.Uint64
		s.ballot = func(b *ballot) { b.token = count.Add(1) }
	}},
	{"G1", "takes a token first, so that a ballot might become visible after others with higher tokens", func(s *Store) {
		s.enter = func(ctx context.Context, right engine.Session, election string, n engine.Nonce, value string) (engine.Entry, error) {
			e, err := right.Enter(ctx, election, n, value)
			first := err == nil && e.Place.Nearest == ""
			s.service.locked(func() {
				if s.service.unseen[e.Place.Nearest] && !e.Place.More {
					e.Place.Nearest = ""
				}
				s.service.unseen[e.Key] = first
			})
			if first {
				adapter.PauseFor(ctx, s.ttl/200)
				s.service.locked(func() { s.service.unseen[e.Key] = false })
			}
			return e, err
		}
	}},
	{"G1", "reads which ballots are ahead before it casts its own", func(s *Store) {
		s.enter = func(ctx context.Context, right engine.Session, election string, n engine.Nonce, value string) (engine.Entry, error) {
			ahead, err := s.driver.Ballots(ctx, election)
			adapter.PauseFor(ctx, s.ttl/2000) // all that are cast at the same moment read first
			e, failed := right.Enter(ctx, election, n, value)
			if len(ahead) == 0 && err == nil {
				e.Place = engine.Place{}
			}
			return e, failed
		}
	}},

	{"G3", "casts another ballot if the reply to the first is lost", func(s *Store) {
		var count atomic.Uint64
		s.enter = func(ctx context.Context, right engine.Session, election string, n engine.Nonce, value string) (engine.Entry, error) {
			n.Name += fmt.Sprint(".", count.Add(1))
			return right.Enter(ctx, election, n, value)
		}
	}},
	{"G3", "leaves the ballot of a cast that is given up", func(s *Store) { s.drops("Void") }},
	{"G3", "removes what casts that were given up have left one by one", func(s *Store) {
		one := make(chan struct{}, 1)
		s.wrong["Void"] = func(ctx context.Context, right method) error {
			one <- struct{}{}
			defer func() { <-one }()
			adapter.PauseFor(ctx, s.ttl/4)
			return right(ctx)
		}
	}},
	{"G3", "does not go on with a withdrawal whose context has ended", func(s *Store) {
		given, giveUp := context.WithCancel(s.service.over)
		s.wrong["Withdraw"] = func(ctx context.Context, right method) error {
			err := right(ctx)
			if ctx.Err() == context.Canceled { // a crowd of callers with deadlines would take long to fail
				giveUp()
			}
			return err
		}
		s.wrong["Remove"] = func(ctx context.Context, right method) error {
			attempt, cancel := context.WithCancel(given)
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			err := right(attempt)
			if attempt.Err() != nil {
				<-ctx.Done()
			}
			return err
		}
	}},
	{"G3", "reports that a ballot is withdrawn without an answer", func(s *Store) {
		s.wrong["Withdraw"] = func(ctx context.Context, right method) error { _ = right(ctx); return nil }
	}},
	{"G3", "never closes Lost", func(s *Store) { s.drops("Lost") }},
	{"G3", "does not notice that its own ballot is removed", func(s *Store) {
		s.watchEntry.tells(func(key string, n *engine.News) {
			if e, own := s.entry(key); own && n.State != nil && n.State.Token == 0 {
				n.State = &engine.State{Token: e.Token}
			}
		})
	}},
	{"", "uses names again, and removes a ballot by its name alone", func(s *Store) {
		var last sync.Map // ballots, by election
		s.ballot = func(b *ballot) {
			last.Store(b.election, b.Ballot)
			b.withdraw = func(ctx context.Context) error {
				if named, _ := last.Load(b.election); b.Ballot.Err() != nil {
					return named.(store.Ballot).Withdraw(ctx)
				}
				return b.Ballot.Withdraw(ctx)
			}
		}
	}},
	{"", "returns an error when a ballot is withdrawn again", func(s *Store) {
		s.ballot = func(b *ballot) {
			b.withdraw = once(b.withdraw, func(context.Context) error { return errPlain })
		}
	}},

	{"G4", "takes a new ballot for first in line", func(s *Store) {
		s.place = func(engine.Place) engine.Place { return engine.Place{} }
	}},
	{"G4", "waits for the last in line when the ballot just ahead goes", func(s *Store) {
		s.place = func(p engine.Place) engine.Place { p.More = p.Nearest != ""; return p }
		s.ahead = func(ctx context.Context, e engine.Entry) (engine.Place, error) {
			asked := time.Now()
			list, err := s.driver.Ballots(ctx, e.Election)
			switch last := list[max(0, len(list)-1):]; {
			case err != nil, len(last) == 0, time.Since(asked) > 0: // in a crowd on a slow line, chance would have a part
				return s.driver.Ahead(ctx, e)
			case last[0].Token != e.Token:
				return engine.Place{Nearest: memory.EntryKey(e.Election, last[0].Token)}, nil
			}
			return engine.Place{}, nil
		}
	}},
	{"G4", "takes itself for first when the ballot just ahead goes", func(s *Store) {
		s.place = func(p engine.Place) engine.Place { p.More = false; return p }
	}},
	{"G4", "does not wait for ballots of its own session", func(s *Store) {
		s.place = func(p engine.Place) engine.Place {
			for own, ok := s.entry(p.Nearest); ok; own, ok = s.entry(p.Nearest) {
				p = own.Place
			}
			return p
		}
	}},
	{"G4", "has one ballot in an election, however often it casts", func(s *Store) {
		var last sync.Map // ballots, by election
		s.cast = func(ctx context.Context, election, value string) (store.Ballot, error) {
			if b, ok := last.Load(election); ok && b.(store.Ballot).Err() == nil {
				return b.(store.Ballot), nil
			}
			b, err := s.Store.Cast(ctx, election, value)
			if err == nil {
				last.Store(election, b)
			}
			return b, err
		}
	}},
	{"G6", "watches the leader while it waits", func(s *Store) {
		s.watchEntry = func(ctx context.Context, key string, tell engine.Tell) (engine.Watch, error) {
			w, err := s.driver.WatchEntry(ctx, key, tell)
			e, own := s.entry(key)
			if err != nil || !own {
				return w, err
			}
			read := false
			leader, err := s.driver.WatchLeader(ctx, e.Election, func(n engine.News) {
				if n.State != nil && read {
					tell(engine.News{}) // read again
				}
				read = true
			})
			return engine.Watch{Stream: w.Stream, Stop: func() { w.Stop(); leader.Stop() }}, err
		}
	}},
}

var errPlain = errors.New("it did not work")

// once returns a function that is f until that has succeeded, and then another.
func once(f, then method) method {
	var done atomic.Bool
	return func(ctx context.Context) error {
		if done.Load() {
			return then(ctx)
		}
		err := f(ctx)
		done.Store(err == nil)
		return err
	}
}
