// Package memory is the service and the driver of store/memory, with all instruments of the simulation: ways to tell of
// changes, sessions that peers expire, clocks, fates of single requests, and a trace. store/memory has those that tests
// of programs need.
package memory

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store/engine"
)

// Config are the settings of a store. The zero value of each field stands for its default.
type Config struct {
	TTL    time.Duration // how long the session lives without renewal, from 1 ms to 24 h. Default: 10 s
	Grace  time.Duration // time reserved before expiry for the leader's work to stop. Default: a third of the TTL
	Logger *slog.Logger  // that of store.Options

	Renewed func(latency time.Duration) // likewise

	Watches Watches // how the service tells the store of changes, as other services do. Default: Ordered
	Peers   bool    // no server ends the session: the stores that wait behind it do, as on a shared disk
	Clock   float64 // how fast the clock of the process runs: 1.02 gains 2 %. Default: 1
}

// Settings points to the fields that all stores have.
func (c *Config) Settings() adapter.Settings {
	return adapter.Settings{
		TTL: &c.TTL, Grace: &c.Grace, Least: time.Millisecond, Most: 24 * time.Hour, Unit: time.Millisecond, Logger: &c.Logger, Renewed: &c.Renewed,
		NoLifeline: "the store ends with its process",
	}
}

// complete fills in the defaults. It returns an error that names the first field which can't be used.
func (c *Config) complete() error {
	switch {
	case c.Watches < Ordered || c.Watches > Unordered:
		return adapter.Refuse("watches", fmt.Sprint(int(c.Watches)), "not one of the constants")
	case c.Clock < 0:
		return adapter.Refuse("clock", fmt.Sprint(c.Clock), "it runs backwards")
	}
	return c.Settings().Complete()
}

// Watches is how a service tells of changes. Simulations try an election with each.
type Watches int

// These are the ways of the services that the other stores are for.
const (
	Ordered   Watches = iota // all watches in the order of the changes, with what is there now, as etcd does
	OneShot                  // in order, once, without what is there now, as ZooKeeper does
	Unordered                // each watch for itself, some late, and without confirmations, as Consul does
)

// Store is one session on a [Service], made by [Open]. It implements store.Store.
type Store struct {
	*engine.Engine
	driver *driver
}

// Open opens a store on the service. It returns at once; the session opens at the first Cast.
func Open(service *Service, config *Config) (*Store, error) {
	var c Config
	if config != nil {
		c = *config
	}
	if err := c.complete(); err != nil {
		return nil, err
	}
	s := &Store{driver: newDriver(service, c)}
	var d engine.Driver = s.driver
	if c.Peers {
		d = peersDriver{s.driver}
	}
	ttl := byClock(c.TTL, c.Clock) // all that the engine measures is measured by this clock
	s.Engine = engine.New(d, engine.Settings{
		Name: "memory://" + service.Name, TTL: ttl, Pace: ttl / 4, RemovedReason: "it was removed", VirtualTime: true, Logger: c.Logger, Renewed: c.Renewed,
	})
	return s, nil
}

// NewDriver returns a driver like that of a store, with the switches on its line, for tests that break it.
func NewDriver(service *Service, c Config) (engine.Driver, *Faults, error) {
	if err := c.complete(); err != nil {
		return nil, nil, err
	}
	d := newDriver(service, c)
	return d, d.faults, nil
}

// Faults returns the switches on the line between this store and its service.
func (s *Store) Faults() *Faults { return s.driver.faults }
