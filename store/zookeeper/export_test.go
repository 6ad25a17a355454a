package zookeeper

// Watches returns how many one-shot watches the store has set.
func (s *Store) Watches() int {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	return len(s.watches.set)
}
