package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// RequestResignation implements engine.Driver. The mark is a version above 0: the ballot's data are set again as they
// are, which nothing else does.
func (d *driver) RequestResignation(ctx context.Context, election string, token uint64) error {
	l, err := d.up(ctx)
	if err != nil {
		return err
	}
	queue, err := l.readQueue(ctx, d.layout.dir(election))
	for _, n := range queue {
		if uint64(n.stat.Czxid) != token {
			continue
		}
		if d.layout.nonce(n.path) == "" {
			return fmt.Errorf("%w: %s is the ballot of another program, such as the zk gem, which takes no requests to resign",
				errors.ErrUnsupported, n.path)
		}
		_, err = request(ctx, l, func(c *zk.Conn) (*zk.Stat, error) { return c.Set(n.path, n.data, 0) })
		if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) { // the ballot has gone, or has been marked
			return nil
		}
	}
	return err
}
