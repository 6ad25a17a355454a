package zookeeper

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// Elections implements engine.Driver. It is one list of the root's children. An election's node stays when its ballots
// have gone.
func (d *driver) Elections(ctx context.Context) ([]string, error) {
	l, err := d.up(ctx)
	if err != nil {
		return nil, err
	}
	names, err := l.syncedChildren(ctx, d.layout.root)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	for i, name := range names {
		names[i] = electionOf(name)
	}
	return names, err
}
