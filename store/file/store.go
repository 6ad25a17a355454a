// Package file is under construction.
package file

import (
	"time"

	"github.com/go-leadership/leadership/store/engine"
)

// engineOf is the engine, under a name that does not show.
type engineOf = engine.Engine

// Store is one session, opened at the first Campaign. It implements store.Store, store.Clearer and store.Resigner.
type Store struct{ *engineOf }

// Open opens a store. It checks the settings and the file system, and makes nothing: the first Campaign does.
func Open(config Config) (*Store, error) {
	config = config.withDefaults()
	if err := config.check(); err != nil {
		return nil, err
	}
	d, err := newDriver(config)
	if err != nil {
		return nil, err
	}
	return newStore(d, config), nil
}

func newStore(d engine.Driver, c Config) *Store {
	return &Store{engine.New(d, engine.Settings{
		Name: c.name(), TTL: c.TTL, Pace: c.TTL / 4, Patience: max(c.TTL, 5*time.Second),
		Removed: "its directory was removed", Logger: c.Logger,
	})}
}
