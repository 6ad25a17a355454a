package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-zookeeper/zk"
)

// WatchEntry implements engine.Driver.
func (d *driver) WatchEntry(ctx context.Context, key string, tell engine.Tell) (engine.Watch, error) {
	l, err := d.up(ctx)
	if err != nil {
		return engine.Watch{}, err
	}
	n, w, err := l.watch(ctx, key, true)
	switch {
	case errors.Is(err, zk.ErrNoNode): // no later node has this name
		tell(engine.News{State: &engine.State{}, Over: true})
		return engine.Watch{Stop: func() {}}, nil
	case err != nil:
		return engine.Watch{}, err
	}
	d.candidates.add(n.stat.EphemeralOwner)
	state := d.state(n)
	return l.watches.begin(w, engine.News{State: &state}, tell), nil
}

// state returns the state of an entry.
func (d *driver) state(n node) engine.State {
	return engine.State{
		Token:   uint64(n.stat.Czxid),
		Session: sessionName(n.stat.EphemeralOwner),
		Nonce:   d.layout.nonce(n.path),
		Resign:  n.stat.Version > 0,
	}
}

// Confirm implements engine.Driver. A server answers reads by itself, and might lag behind, so Confirm sends a barrier. The
// barrier does not renew the lease: serve chooses the times of the session's confirmations (touches.go).
func (d *driver) Confirm(ctx context.Context) error {
	l, err := d.up(ctx)
	if err != nil {
		return err
	}
	sent := time.Now()
	if err := l.sync(ctx); err != nil {
		return err
	}
	l.watches.confirmed(sent)
	return nil
}

// sync sends a barrier. Later reads of the connection are as of the barrier, or later.
func (l *link) sync(ctx context.Context) error {
	sent := time.Now()
	if _, err := request(ctx, l, barrier); err != nil {
		return err
	}
	l.driver.set(func() {
		if sent.After(l.confirmed) {
			l.confirmed = sent
		}
	})
	return nil
}

// WatchLeader implements engine.Driver. A read is as of the connection's last confirmation, or later.
func (d *driver) WatchLeader(ctx context.Context, election string, tell engine.Tell) (engine.Watch, error) {
	l, err := d.up(ctx)
	if err != nil {
		return engine.Watch{}, err
	}
	d.mu.Lock()
	asOf := l.confirmed
	d.mu.Unlock()
	path := d.layout.ackPath(election)
	n, w, err := l.watch(ctx, path, false)
	if err != nil {
		return engine.Watch{}, fmt.Errorf("read %s: %w", path, err)
	}
	state := engine.State{}
	if n.stat != nil {
		state.Leader = store.Leader{Value: string(n.data), Revision: uint64(n.stat.Mzxid)}
	}
	return l.watches.begin(w, engine.News{State: &state, AsOf: asOf}, tell), nil
}

// Ballots implements engine.Driver. It reads every ballot.
func (d *driver) Ballots(ctx context.Context, election string) ([]store.Standing, error) {
	l, err := d.up(ctx)
	if err != nil {
		return nil, err
	}
	queue, err := l.readQueue(ctx, d.layout.dir(election))
	if err != nil {
		return nil, err
	}
	var list []store.Standing
	for _, n := range queue {
		foreign := d.layout.nonce(n.path) == ""
		list = append(list, store.Standing{
			Value: string(n.data), Token: uint64(n.stat.Czxid), Asked: !foreign && n.stat.Version > 0, Foreign: foreign,
		})
	}
	return list, nil
}

// First implements engine.Driver. It reads the stat of one ballot.
func (d *driver) First(ctx context.Context, election string) (engine.State, error) {
	l, err := d.up(ctx)
	if err != nil {
		return engine.State{}, err
	}
	dir := d.layout.dir(election)
	for {
		nodes, err := l.syncedChildren(ctx, dir)
		queue := d.layout.queue(nodes)
		switch {
		case err != nil && !errors.Is(err, zk.ErrNoNode):
			return engine.State{}, err
		case len(queue) == 0:
			return engine.State{}, nil
		}
		n, err := request(ctx, l, func(c *zk.Conn) (node, error) { return statEntry(c, dir+"/"+queue[0]) })
		if errors.Is(err, zk.ErrNoNode) { // the ballot has gone since
			continue
		}
		if err != nil {
			return engine.State{}, err
		}
		return d.state(n), nil
	}
}

// readQueue reads the ballots of an election, some at a time, the first in line first.
func (l *link) readQueue(ctx context.Context, dir string) (list []node, err error) {
	nodes, err := l.syncedChildren(ctx, dir)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	for some := range slices.Chunk(l.driver.layout.queue(nodes), 32) {
		var reads []<-chan result[node]
		for _, name := range some {
			reads = append(reads, async(l, func(c *zk.Conn) (node, error) { return readNode(c, dir+"/"+name) }))
		}
		for _, read := range reads {
			n, err := receive(ctx, read)
			switch {
			case err == nil:
				list = append(list, n)
			case !errors.Is(err, zk.ErrNoNode): // else the ballot has gone since
				return nil, err
			}
		}
	}
	return list, nil
}
