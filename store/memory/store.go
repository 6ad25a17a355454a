// Package memory is the reference store: elections within one process. It is complete (sessions with a TTL, expiry,
// fencing tokens, acknowledgement), it runs in the virtual time of testing/synctest, and its [Faults] make the line
// between a store and its service fail on demand.
//
//	service := memory.NewService()
//	st, err := memory.Open(service, nil)
//
// or, with a service that all of the process shares under a name, store.Open(ctx, "memory://name?ttl=10s", nil).
//
// A crashed leader is replaced at most one TTL after its last renewal.
package memory

import (
	"fmt"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// Config holds the settings of a store. The zero value of each field stands for its default.
type Config struct {
	TTL   time.Duration // how long the session lives without renewal; 10 s
	Grace time.Duration // time reserved before expiry for the leader's work to stop; a third of the TTL

	Watches Watches // how the service tells the store of changes, as other services do; Ordered
	Peers   bool    // no server ends the session: the stores that wait behind it do, as on a shared disk
	Clock   float64 // how fast the clock of the process runs: 1.02 gains 2 %; 1
}

// Watches is how a service tells of changes. Simulations try an election with each.
type Watches int

// These are the ways of the services that the other stores are for.
const (
	Ordered   Watches = iota // all watches in the order of the changes, with what is there now, as etcd does
	OneShot                  // in order, once, without what is there now, as ZooKeeper does
	Unordered                // each watch for itself, some late, and without confirmations, as Consul does
)

const defaultTTL = 10 * time.Second

// engineOf is the engine, under a name that does not show.
type engineOf = engine.Engine

// Store is one session on a [Service], made by [Open]. It implements store.Store, store.Clearer and
// store.Resigner.
type Store struct {
	*engineOf
	driver *driver
	faults Faults
}

// Open opens a store on the service. It returns at once; the session opens at the first Campaign.
func Open(service *Service, config *Config) (*Store, error) {
	if service == nil {
		return nil, &store.FieldError{Field: "service", Reason: "it is nil"}
	}
	if config == nil {
		config = &Config{}
	}
	ttl, grace := config.TTL, config.Grace
	if ttl == 0 {
		ttl = defaultTTL
	}
	if grace == 0 {
		grace = ttl / 3
	}
	if ttl < time.Millisecond { // negative ones too
		return nil, &store.FieldError{Field: "ttl", Value: ttl.String(), Reason: "less than 1ms"}
	}
	if config.Watches < Ordered || config.Watches > Unordered {
		return nil, &store.FieldError{Field: "watches", Value: fmt.Sprint(int(config.Watches)), Reason: "not one of the constants"}
	}
	if config.Clock < 0 {
		return nil, &store.FieldError{Field: "clock", Value: fmt.Sprint(config.Clock), Reason: "it runs backwards"}
	}
	if grace < 0 || grace >= ttl/2 {
		reason := fmt.Sprintf("not from 0 to below half of the ttl %v", ttl)
		return nil, &store.FieldError{Field: "grace", Value: grace.String(), Reason: reason}
	}
	s := &Store{}
	s.faults.changed = make(chan struct{})
	s.driver = newDriver(service, &s.faults, ttl, grace)
	s.driver.line.kind, s.driver.peers, s.driver.clock = config.Watches, config.Peers, config.Clock
	s.faults.driver = s.driver
	var d engine.Driver = s.driver
	if config.Peers {
		d = peersDriver{s.driver}
	}
	ttl = byClock(ttl, config.Clock) // all that the engine measures is measured by this clock
	s.engineOf = engine.New(d, engine.Settings{
		Name: "memory://" + service.name, TTL: ttl, Pace: ttl / 4, Removed: "it was removed",
	})
	return s, nil
}

// Faults returns the switches on the line between this store and its service.
func (s *Store) Faults() *Faults { return &s.faults }
