package etcd

import "github.com/go-leadership/leadership/store/engine"

// NewDriver returns a started driver, without a store.
func NewDriver(config Config) (engine.Driver, error) {
	d, err := newDriver(config)
	if err != nil {
		return nil, err
	}
	d.begin()
	return d, nil
}

// Watches returns how many watches the cluster has confirmed and was not asked to cancel.
func (s *Store) Watches() int {
	s.driver.watches.mu.Lock()
	defer s.driver.watches.mu.Unlock()
	return len(s.driver.watches.byID)
}
