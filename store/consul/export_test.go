package consul

import "github.com/go-leadership/leadership/store/engine"

// NewDriver returns a driver without a store.
func NewDriver(config Config) (engine.Driver, error) {
	dial := config.Dial != nil
	config = config.withDefaults()
	if err := config.check(dial); err != nil {
		return nil, err
	}
	return newDriver(config)
}
