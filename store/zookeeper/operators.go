package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-zookeeper/zk"
)

// Ballots implements engine.Driver. It reads every ballot.
func (d *driver) Ballots(ctx context.Context, election string) (list []store.Standing, err error) {
	queue, err := d.readQueue(ctx, election, math.MaxInt, readNode)
	for _, n := range queue {
		foreign := nonceOf(n.path) == ""
		list = append(list, store.Standing{
			Value: string(n.data), Token: uint64(n.stat.Czxid), Asked: !foreign && n.stat.Version > 0, Foreign: foreign,
		})
	}
	return list, err
}

// First implements engine.Driver. It reads the stat of one ballot.
func (d *driver) First(ctx context.Context, election string) (engine.State, error) {
	queue, err := d.readQueue(ctx, election, 1, statEntry)
	if err != nil || len(queue) == 0 {
		return engine.State{}, err
	}
	return state(queue[0]), nil
}

// readQueue reads the ballots of an election, the first in line first, until it has read most. It sends some reads at a time.
func (d *driver) readQueue(ctx context.Context, election string, most int, read func(*zk.Conn, string) (node, error)) (list []node, err error) {
	l, err := d.up(ctx)
	if err != nil {
		return nil, err
	}
	dir := d.dir(election)
	nodes, err := l.syncedChildren(ctx, dir)
	if err != nil {
		return nil, err
	}
	for some := range slices.Chunk(queue(nodes), min(most, 32)) {
		var answers []<-chan result[node]
		for _, b := range some {
			answers = append(answers, async(l, func(c *zk.Conn) (node, error) { return read(c, dir+"/"+b.name) }))
		}
		for _, answer := range answers {
			n, err := receive(ctx, answer)
			switch {
			case err == nil:
				list = append(list, n)
			case !errors.Is(err, zk.ErrNoNode): // else the ballot has gone since
				return nil, err
			}
		}
		if len(list) >= most {
			break
		}
	}
	return list, nil
}

// Elections implements engine.Driver. It is one list of the root's children. An election's node stays when its ballots
// have gone.
func (d *driver) Elections(ctx context.Context) ([]string, error) {
	l, err := d.up(ctx)
	if err != nil {
		return nil, err
	}
	names, err := l.syncedChildren(ctx, d.root)
	for i, name := range names {
		names[i] = electionOf(name)
	}
	return names, err
}

// RequestResignation implements engine.Driver. The mark is a version above 0: the ballot's data are set again as they
// are, which nothing else does.
func (d *driver) RequestResignation(ctx context.Context, election string, token uint64) error {
	l, err := d.up(ctx)
	if err != nil {
		return err
	}
	queue, err := d.readQueue(ctx, election, math.MaxInt, readNode)
	for _, n := range queue {
		if uint64(n.stat.Czxid) != token {
			continue
		}
		if nonceOf(n.path) == "" {
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

// Clear implements engine.Driver. Without a name it deletes the root with everything below it.
func (d *driver) Clear(ctx context.Context, election string) error {
	l, err := d.up(ctx)
	if err != nil {
		return err
	}
	if election == "" {
		return l.deleteTree(ctx, d.root)
	}
	return l.deleteTree(ctx, d.dir(election))
}

// batch is how many nodes are deleted in one step: all nodes of most elections.
const batch = 1000

// deleteTree deletes a node with all nodes below. It begins again if other nodes appear meanwhile.
func (l *link) deleteTree(ctx context.Context, dir string) error {
	for {
		nodes, err := l.syncedChildren(ctx, dir)
		if err != nil {
			return err
		}
		var ops []any
		for _, node := range nodes[:min(len(nodes), batch)] {
			ops = append(ops, &zk.DeleteRequest{Path: path.Join(dir, node), Version: -1})
		}
		if len(nodes) <= batch {
			ops = append(ops, &zk.DeleteRequest{Path: dir, Version: -1})
		}
		_, err = l.multi(ctx, ops)
		switch {
		case errors.Is(err, zk.ErrNotEmpty): // a node has children, or another has appeared
			for _, node := range nodes {
				if err := l.deleteTree(ctx, path.Join(dir, node)); err != nil {
					return err
				}
			}
		case err != nil && !errors.Is(err, zk.ErrNoNode): // a node has gone meanwhile, or the directory
			return err
		case len(nodes) == 0, err == nil && len(nodes) <= batch:
			return nil
		}
	}
}
