package etcd

// Watches returns how many watches the cluster has confirmed and not been asked to take back.
func (s *Store) Watches() int {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	return len(s.watches.byID)
}
