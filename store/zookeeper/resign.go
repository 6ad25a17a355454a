package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// RequestResignation implements engine.Resigner. The mark is a version above 0: the ballot's data are set again as they
// are, which nothing else does.
func (d *driver) RequestResignation(ctx context.Context, election string, token uint64) error {
	dir := d.layout.dir(election)
	nodes, err := d.syncedChildren(ctx, dir)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	for _, p := range d.layout.queue(nodes) {
		path := dir + "/" + p.name
		n, err := request(ctx, d, func() (node, error) { return d.readNode(path) })
		switch {
		case errors.Is(err, zk.ErrNoNode):
			continue
		case err != nil:
			return fmt.Errorf("read %s: %w", path, err)
		case uint64(n.stat.Czxid) != token:
			continue
		}
		_, err = request(ctx, d, func() (*zk.Stat, error) { return d.conn.Set(path, n.data, 0) })
		if err == nil || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) { // it has gone, or has been marked
			return nil
		}
		return fmt.Errorf("mark %s: %w", path, err)
	}
	return nil
}
