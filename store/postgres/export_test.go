package postgres

import "github.com/go-leadership/leadership/store/engine"

// NewDriver returns a driver without an engine.
func NewDriver(config Config) (engine.Driver, error) {
	d, err := newDriver(config)
	if err != nil {
		return nil, err
	}
	return d, nil
}
