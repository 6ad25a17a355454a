package consul

import (
	"context"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// Clear implements store.Clearer. Without a name it deletes all keys that begin with <prefix>/. Locked keys can be
// deleted: locks are advisory.
func (s *Store) Clear(ctx context.Context, election string) error {
	if election != "" {
		if err := store.CheckElection(election); err != nil {
			return err
		}
	}
	_, err := adapter.Repeat(ctx, s.life, "clear", election, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.clear(ctx, election)
	})
	return err
}

func (s *Store) clear(ctx context.Context, election string) error {
	tree := s.config.Prefix + "/"
	if election != "" {
		tree = s.layout.ack(election) + "/_"
	}
	_, err := request(ctx, s, func(ctx context.Context) (struct{}, error) {
		if election != "" {
			if _, err := s.client.KV().Delete(s.layout.ack(election), s.writeOptions(ctx)); err != nil {
				return struct{}{}, err
			}
		}
		_, err := s.client.KV().DeleteTree(tree, s.writeOptions(ctx))
		return struct{}{}, err
	})
	return err
}
