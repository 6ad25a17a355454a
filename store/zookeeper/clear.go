package zookeeper

import (
	"context"
	"errors"
	"path"

	"github.com/go-zookeeper/zk"
)

// Clear implements engine.Driver. Without a name it deletes the root with everything below it, and the node of the
// chroot if that node has no other children.
func (d *driver) Clear(ctx context.Context, election string) error {
	l, err := d.up(ctx)
	if err != nil {
		return err
	}
	if election != "" {
		return l.deleteTree(ctx, d.layout.dir(election))
	}
	if err := l.deleteTree(ctx, d.layout.root); err != nil || d.config.Chroot == "" {
		return err
	}
	err = l.delete(ctx, d.config.Chroot, -1)
	if errors.Is(err, zk.ErrNotEmpty) {
		return nil
	}
	return err
}

// most is how many nodes are deleted in one step: all nodes of most elections.
const most = 1000

// deleteTree deletes a node with all nodes below. It begins again if other nodes appear meanwhile.
func (l *link) deleteTree(ctx context.Context, dir string) error {
	for {
		nodes, err := l.syncedChildren(ctx, dir)
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
		_, err = l.multi(ctx, ops)
		switch {
		case err == nil, errors.Is(err, zk.ErrNoNode): // of the directory, or of a node that has gone meanwhile
		case errors.Is(err, zk.ErrNotEmpty): // a node has children, or another has appeared
			for _, node := range nodes {
				if err := l.deleteTree(ctx, path.Join(dir, node)); err != nil {
					return err
				}
			}
		default:
			return err
		}
	}
}
