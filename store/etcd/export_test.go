package etcd

// Watches returns how many watches the cluster has confirmed and not been asked to take back.
func (s *Store) Watches() int {
	s.driver.watches.mu.Lock()
	defer s.driver.watches.mu.Unlock()
	return len(s.driver.watches.byID)
}
