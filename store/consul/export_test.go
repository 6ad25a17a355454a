package consul

import "github.com/go-leadership/leadership/store/engine"

// NewDriver returns a driver without a store.
func NewDriver(config Config) (engine.Driver, error) { return newDriver(config) }
