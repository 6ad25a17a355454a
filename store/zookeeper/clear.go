package zookeeper

import (
	"context"
	"errors"
	"path"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-zookeeper/zk"
)

// Clear implements store.Clearer. Without a name it deletes the root with everything below it, and the node of the
// chroot where nothing else is in it.
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
	if election != "" {
		return s.deleteTree(ctx, s.layout.dir(election))
	}
	if err := s.deleteTree(ctx, s.layout.root); err != nil || s.config.Chroot == "" {
		return err
	}
	err := s.delete(ctx, s.config.Chroot)
	if errors.Is(err, zk.ErrNotEmpty) {
		return nil
	}
	return err
}

// most is how many nodes are deleted in one step. All nodes of an election are as a rule.
const most = 1000

// deleteTree deletes a node and all below it, again if others appear meanwhile.
func (s *Store) deleteTree(ctx context.Context, dir string) error {
	for {
		nodes, err := s.syncedChildren(ctx, dir)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		var ops []any
		for _, node := range nodes[:min(len(nodes), most)] {
			ops = append(ops, &zk.DeleteRequest{Path: path.Join(dir, node), Version: -1})
		}
		if len(nodes) <= most {
			ops = append(ops, &zk.DeleteRequest{Path: dir, Version: -1})
		}
		_, err = s.multi(ctx, ops)
		switch {
		case err == nil, errors.Is(err, zk.ErrNoNode): // of the directory, or of a node that has gone meanwhile
		case errors.Is(err, zk.ErrNotEmpty): // a node has children, or another has appeared
			for _, node := range nodes {
				if err := s.deleteTree(ctx, path.Join(dir, node)); err != nil {
					return err
				}
			}
		default:
			return err
		}
	}
}
