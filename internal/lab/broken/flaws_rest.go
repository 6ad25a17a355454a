package broken

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// restFlaws are mistakes by which something is left or goes on, and in what a store says.
var restFlaws = []Flaw{
	{"G7", "leaves a goroutine for each ballot", func(s *Store) { s.leaves("Cast") }},
	{"G7", "leaves a goroutine after Close", func(s *Store) { s.leaves("Close") }},
	{"G7", "lets Wait go on after Close", func(s *Store) {
		s.wrong["Wait"] = func(ctx context.Context, right method) error {
			err := right(ctx)
			if errors.Is(err, store.ErrClosed) {
				<-ctx.Done()
			}
			return err
		}
	}},
	{"G7", "sends the next request at once when one fails", func(s *Store) { s.asks(func() {}) }},
	{"G7", "leaves a goroutine for each request that fails", func(s *Store) { s.asks(s.service.leave) }},

	{"", "goes on casting when the context has ended", func(s *Store) { s.ignoresContext("Cast") }},
	{"", "goes on waiting when the context has ended", func(s *Store) { s.ignoresContext("Wait") }},
	{"", "says that it has never worked", func(s *Store) { s.drops("Worked") }},
	{"", "tells another TTL than that of its session", func(s *Store) { s.ttl = 15 * time.Second }},
	{"", "does not check names", func(s *Store) {
		s.name = func(election string) string {
			if store.CheckElection(election) != nil {
				return fmt.Sprintf("%x", election)
			}
			return election
		}
	}},
	{"", "keeps two elections under one name, of which one has a space and the other an underscore", func(s *Store) {
		s.name = func(election string) string { return strings.ReplaceAll(election, " ", "_") }
	}},
	{"", "lists an election by the first part of its name", func(s *Store) {
		s.listed = func(names []string) []string {
			for i, name := range names {
				names[i], _, _ = strings.Cut(name, "/")
			}
			return slices.Compact(names)
		}
	}},
	{"", "lists the last in line first", func(s *Store) {
		s.standing = func(list []store.Standing) []store.Standing { slices.Reverse(list); return list }
	}},
	{"", "lists its own ballots alone", func(s *Store) {
		s.standing = func(list []store.Standing) []store.Standing {
			return slices.DeleteFunc(list, func(b store.Standing) bool {
				own := false
				s.entries.Range(func(_, e any) bool { own = own || e.(engine.Entry).Token == b.Token; return true })
				return !own
			})
		}
	}},
	{"", "returns nil from Wait for a ballot that was first and is lost", func(s *Store) {
		s.ballot = func(b *ballot) { b.wait = once(b.wait, func(context.Context) error { return nil }) }
	}},
	{"", "gives lost ballots an error of its own", func(s *Store) { s.says(store.ErrLost, errPlain, "Err", "Wait", "Acknowledge") }},
	{"", "does not say that a ballot is lost because the store is closed", func(s *Store) { s.says(store.ErrClosed, adapter.ErrSessionEnded, "Err") }},
	{"", "reports a plain failure if the request might have been carried out", func(s *Store) {
		s.says(store.ErrUnknownOutcome, errPlain, "Acknowledge")
	}},

	{"G3", "does not tell the owner of a ballot that an operator asks for its resignation", func(s *Store) { s.drops("ResignationRequested") }},
	{"G1", "removes a ballot when an operator asks for its owner's resignation", func(s *Store) {
		s.request = func(_ context.Context, election string, token uint64) error {
			s.service.Delete(election, token)
			return nil
		}
	}},
	{"G4", "asks all to resign when an operator asks one", func(s *Store) {
		s.request = func(ctx context.Context, election string, _ uint64) error {
			list, err := s.Store.Ballots(ctx, election)
			for _, b := range list {
				err = errors.Join(err, s.Store.RequestResignation(ctx, election, b.Token))
			}
			return err
		}
	}},
}

// leaves leaves a goroutine at each such call.
func (s *Store) leaves(at string) {
	s.wrong[at] = func(ctx context.Context, right method) error { s.service.leave(); return right(ctx) }
}

// ignoresContext makes a call go on when its context has ended.
func (s *Store) ignoresContext(at string) {
	s.wrong[at] = func(_ context.Context, right method) error {
		err := right(s.service.over)
		for s.service.over.Err() == nil && adapter.Uncertain(err) {
			err = right(s.service.over)
		}
		return err
	}
}

// says replaces one error of some calls by another.
func (s *Store) says(kind, another error, calls ...string) {
	for _, call := range calls {
		s.wrong[call] = func(ctx context.Context, right method) error {
			err := right(ctx)
			if errors.Is(err, kind) {
				return another
			}
			return err
		}
	}
}

// asks sends a request again and again while a session is kept, and calls f after each that fails.
func (s *Store) asks(f func()) {
	s.keep = func(ctx context.Context, right engine.Session, renewed func(engine.Proof)) error {
		asking, stop := context.WithCancel(ctx)
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			for asking.Err() == nil {
				attempt, cancel := context.WithTimeout(asking, s.ttl/200)
				if _, err := s.driver.Ballots(attempt, "none"); err != nil {
					f()
				} else {
					adapter.PauseFor(asking, s.ttl/4)
				}
				cancel()
			}
		}()
		defer func() { stop(); <-asked }()
		return right.Keep(ctx, renewed)
	}
}
