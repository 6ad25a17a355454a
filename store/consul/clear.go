package consul

import (
	"context"

	"github.com/go-leadership/leadership/store"
)

// Clear implements store.Clearer. Without a name it deletes all keys that begin with <prefix>/. That keys are locked
// keeps nobody from deleting them: locks are advisory.
func (s *Store) Clear(ctx context.Context, election string) error {
	if election != "" {
		if err := store.CheckElection(election); err != nil {
			return err
		}
	}
	ctx, done, err := s.call(ctx)
	if err != nil {
		return s.fail("clear", election, err)
	}
	defer done()
	for {
		err := s.clear(ctx, election)
		if err == nil || ctx.Err() != nil || !uncertain(err) {
			return s.fail("clear", election, err)
		}
		pause(ctx, again)
	}
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
