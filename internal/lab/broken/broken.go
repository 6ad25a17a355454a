// Package broken breaks the store in memory in one place, as the author of a store or of a driver might by mistake: the
// conformance suite has to notice. Without a flaw the store passes the suite. The flaws are in flaws_*.go.
package broken

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// Flaw is one mistake.
type Flaw struct {
	Promise string // the one of "G1" to "G7" that it breaks; empty if it is the contract of package store alone
	Does    string // what the store does: the predicate of a sentence
	make    func(s *Store)
}

// Flaws are all mistakes.
var Flaws = slices.Concat(leaseFlaws, ballotFlaws, leaderFlaws, restFlaws)

// Service is the service of stores that have the same flaw.
type Service struct {
	*memory.Service
	flaw Flaw
	over context.Context // ends in End
	end  context.CancelFunc
	left sync.WaitGroup // goroutines that flawed stores leave

	mu      sync.Mutex
	stores  []*Store                // guarded by mu, as are all below
	leaders map[string]store.Leader // by election: as acknowledged last
	removed map[string]uint64       // by election: no leader up to that revision is shown
	base    map[string]uint64       // by election: where its counter of tokens began
	unseen  map[string]bool         // by key: entries that others do not see yet
}

// NewService returns a service. The zero Flaw is none.
func NewService(flaw Flaw) *Service {
	s := &Service{
		Service: memory.NewService(), flaw: flaw,
		leaders: map[string]store.Leader{}, removed: map[string]uint64{}, base: map[string]uint64{}, unseen: map[string]bool{},
	}
	s.over, s.end = context.WithCancel(context.Background())
	return s
}

// Clear removes all that there is of an election, as an operator does.
func (s *Service) Clear(election string) {
	s.Service.Clear(election)
	s.locked(func() { delete(s.base, election) })
}

func (s *Service) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// End ends all that flawed stores have left running, and calls that hang.
func (s *Service) End() {
	s.end()
	for _, st := range s.stores { // no store is opened any more
		_ = st.Store.Close()
	}
	s.left.Wait()
}

// leave leaves a goroutine behind.
func (s *Service) leave() { s.left.Go(func() { <-s.over.Done() }) }

// Store is a store of the engine on a driver of the service. A flaw replaces some of the functions below.
type Store struct {
	store.Store
	service    *Service
	faults     *memory.Faults
	ttl, valid time.Duration // valid: of a proof
	driver     engine.Driver // without flaw

	wrong    map[string]func(ctx context.Context, right method) error // by call, of the driver too
	name     func(election string) string                             // under which an election is kept
	cast     func(ctx context.Context, election, value string) (store.Ballot, error)
	observe  func(ctx context.Context, election string, prev *store.Known) (store.Known, error)
	standing func(list []store.Standing) []store.Standing
	listed   func(names []string) []string
	request  func(ctx context.Context, election string, token uint64) error
	ballot   func(b *ballot) // is called with each new ballot

	watchEntry, watchLeader watch
	proof                   func(p engine.Proof) engine.Proof
	place                   func(p engine.Place) engine.Place // what is ahead of an entry
	ahead                   func(ctx context.Context, e engine.Entry) (engine.Place, error)
	keep                    func(ctx context.Context, right engine.Session, renewed func(engine.Proof)) error
	enter                   func(ctx context.Context, right engine.Session, election string, n engine.Nonce, value string) (engine.Entry, error)

	entries sync.Map // of engine.Entry, by key: those that this store has cast
}

// Open opens a store on the service.
func Open(service *Service, ttl, grace time.Duration) (*Store, error) {
	d, faults, err := memory.NewDriver(service.Service, memory.Config{TTL: ttl, Grace: grace})
	if err != nil {
		return nil, err
	}
	s := &Store{
		service: service, faults: faults, ttl: ttl, valid: ttl - grace, driver: d,
		wrong:    map[string]func(context.Context, method) error{},
		name:     func(election string) string { return election },
		standing: func(list []store.Standing) []store.Standing { return list },
		listed:   func(names []string) []string { return names },
		ballot:   func(*ballot) {},
		proof:    func(p engine.Proof) engine.Proof { return p },
		place:    func(p engine.Place) engine.Place { return p },
		keep: func(ctx context.Context, right engine.Session, renewed func(engine.Proof)) error {
			return right.Keep(ctx, renewed)
		},
		enter: func(ctx context.Context, right engine.Session, election string, n engine.Nonce, value string) (engine.Entry, error) {
			return right.Enter(ctx, election, n, value)
		},
		watchEntry: d.WatchEntry, watchLeader: d.WatchLeader, ahead: d.Ahead,
	}
	s.Store = engine.New(&driver{d, s}, engine.Settings{
		Name: "broken://", TTL: ttl, Pace: ttl / 4, RemovedReason: "it was removed", VirtualTime: true,
	})
	s.cast, s.observe, s.request = s.Store.Cast, s.Store.Observe, s.Store.RequestResignation
	if service.flaw.make != nil {
		service.flaw.make(s)
	}
	service.locked(func() { service.stores = append(service.stores, s) })
	return s, nil
}

// Faults returns the switches on the line between the store and its service.
func (s *Store) Faults() *memory.Faults { return s.faults }

// method is one without its other parameters and results.
type method func(ctx context.Context) error

// do makes a call, as the flaw does.
func (s *Store) do(ctx context.Context, name string, right method) error {
	if wrong := s.wrong[name]; wrong != nil {
		return wrong(ctx, right)
	}
	return right(ctx)
}

// drops makes a call do nothing. A channel is nil.
func (s *Store) drops(call string) {
	s.wrong[call] = func(context.Context, method) error { return nil }
}

// Cast implements store.Store.
func (s *Store) Cast(ctx context.Context, election, value string) (cast store.Ballot, err error) {
	err = s.do(ctx, "Cast", func(ctx context.Context) error { cast, err = s.cast(ctx, s.name(election), value); return err })
	if err != nil {
		return nil, err
	}
	b := &ballot{Ballot: cast, store: s, election: election, value: value, token: cast.Token(), lease: cast.Lease()}
	b.wait, b.acknowledge, b.withdraw = cast.Wait, cast.Acknowledge, cast.Withdraw
	s.ballot(b)
	return b, nil
}

// Observe implements store.Store.
func (s *Store) Observe(ctx context.Context, election string, prev *store.Known) (k store.Known, err error) {
	err = s.do(ctx, "Observe", func(ctx context.Context) error { k, err = s.observe(ctx, s.name(election), prev); return err })
	return k, err
}

// Ballots implements store.Store.
func (s *Store) Ballots(ctx context.Context, election string) ([]store.Standing, error) {
	list, err := s.Store.Ballots(ctx, s.name(election))
	return s.standing(list), err
}

// Elections implements store.Store.
func (s *Store) Elections(ctx context.Context) ([]string, error) {
	names, err := s.driver.Elections(ctx)
	slices.Sort(names)
	return s.listed(names), err
}

// RequestResignation implements store.Store.
func (s *Store) RequestResignation(ctx context.Context, election string, token uint64) error {
	return s.request(ctx, s.name(election), token)
}

// Worked implements store.Store.
func (s *Store) Worked() bool { return s.wrong["Worked"] == nil && s.Store.Worked() }

// TTL implements store.Store.
func (s *Store) TTL() time.Duration { return s.ttl }

// Close implements store.Store.
func (s *Store) Close() error {
	return s.do(s.service.over, "Close", func(context.Context) error { return s.Store.Close() })
}

// ballot is a ballot of the engine, of which a flaw replaces some methods.
type ballot struct {
	store.Ballot
	store           *Store
	election, value string

	token          uint64
	lease          *store.Lease
	wait, withdraw func(ctx context.Context) error
	acknowledge    func(ctx context.Context, value string) (store.Leader, error)
}

// The methods implement store.Ballot.

func (b *ballot) Token() uint64       { return b.token }
func (b *ballot) Lease() *store.Lease { return b.lease }

func (b *ballot) Err() error {
	return b.store.do(b.store.service.over, "Err", func(context.Context) error { return b.Ballot.Err() })
}

func (b *ballot) Lost() <-chan struct{} { return b.store.unless("Lost", b.Ballot.Lost()) }

func (b *ballot) ResignationRequested() <-chan struct{} {
	return b.store.unless("ResignationRequested", b.Ballot.ResignationRequested())
}

// unless returns a channel, or nil if the flaw drops that.
func (s *Store) unless(call string, c <-chan struct{}) <-chan struct{} {
	if s.wrong[call] != nil {
		return nil
	}
	return c
}

func (b *ballot) Wait(ctx context.Context) error     { return b.store.do(ctx, "Wait", b.wait) }
func (b *ballot) Withdraw(ctx context.Context) error { return b.store.do(ctx, "Withdraw", b.withdraw) }

func (b *ballot) Acknowledge(ctx context.Context, value string) (l store.Leader, err error) {
	err = b.store.do(ctx, "Acknowledge", func(ctx context.Context) error { l, err = b.acknowledge(ctx, value); return err })
	return l, err
}
