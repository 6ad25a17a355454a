package memory

import (
	"context"
	"maps"
	"slices"

	"github.com/go-leadership/leadership/store"
)

// Clear implements store.Clearer. It is an operator's: it does not go over the store's line.
func (s *Store) Clear(_ context.Context, election string) error {
	if election == "" {
		s.service.mu.Lock()
		names := slices.Collect(maps.Keys(s.service.elections))
		s.service.mu.Unlock()
		for _, name := range names {
			s.service.Clear(name)
		}
		return nil
	}
	if err := store.CheckElection(election); err != nil {
		return err
	}
	s.service.Clear(election)
	return nil
}
