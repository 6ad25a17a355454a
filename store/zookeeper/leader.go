package zookeeper

import (
	"cmp"
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
	if w, n, ok := d.watches.kept(key); ok {
		return d.watches.begin(w, d.news(key, n), tell), nil
	}
	if _, err := d.await(ctx); err != nil {
		return engine.Watch{}, err
	}
	n, w, err := d.watch(ctx, watchKey{key, false}, true)
	switch {
	case errors.Is(err, zk.ErrNoNode): // no later node has this name
		tell(engine.News{State: &engine.State{}, Over: true})
		return engine.Watch{Stop: func() {}}, nil
	case err != nil:
		return engine.Watch{}, err
	}
	d.elections.met(key, n.stat.EphemeralOwner)
	return d.watches.begin(w, d.news(key, n), tell), nil
}

// news returns what a read of an entry tells.
func (d *driver) news(key string, n node) engine.News {
	state := d.state(key, n)
	return engine.News{State: &state}
}

// state returns the state of an entry.
func (d *driver) state(key string, n node) engine.State {
	return engine.State{
		Token:   uint64(n.stat.Czxid),
		Session: sessionName(n.stat.EphemeralOwner),
		Nonce:   d.layout.nonce(key),
		Resign:  n.stat.Version > 0,
	}
}

// Confirm implements engine.Driver. It sends a barrier, and all that happened before has been told when that is answered.
func (d *driver) Confirm(ctx context.Context) error {
	sess, err := d.await(ctx)
	if err != nil {
		return err
	}
	sent := time.Now()
	if _, err := request(ctx, d, func() (struct{}, error) { return struct{}{}, d.barrier() }); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	err = d.stillLocked(sess) // in one step with the note: a later session needs a barrier of its own
	if err == nil && sent.After(d.confirmed) {
		d.confirmed = sent
	}
	if err == nil {
		d.watches.confirmed(sent)
	}
	return err
}

// WatchLeader implements engine.Driver. It reports what is in the way now and then, as Open does.
func (d *driver) WatchLeader(ctx context.Context, election string, tell engine.Tell) (engine.Watch, error) {
	waiting, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var sess *session
	var asOf time.Time
	err := d.until(waiting, func() (bool, error) {
		// The library lets no later server of a session be behind an earlier one; from session to session only a barrier does.
		sess, asOf = d.current, d.confirmed
		return sess != nil && d.authenticated && !d.confirmed.IsZero() && d.refused == nil, d.refused
	})
	if err != nil {
		return engine.Watch{}, err
	}
	path := d.layout.ackPath(election)
	for {
		var leader store.Leader
		n, w, err := d.watch(ctx, watchKey{path, false}, false)
		switch {
		case err == nil:
			leader = store.Leader{Value: string(n.data), Revision: uint64(n.stat.Mzxid)}
		case errors.Is(err, zk.ErrNoNode):
			_, w, err = d.watch(ctx, watchKey{path, true}, false)
		}
		switch {
		case errors.Is(err, zk.ErrNodeExists):
			continue
		case err == nil:
			if err = d.still(sess); err != nil {
				d.watches.remove(w)
			}
		}
		if err != nil {
			return engine.Watch{}, fmt.Errorf("read %s: %w", path, err)
		}
		return d.watches.begin(w, engine.News{State: &engine.State{Leader: leader}, AsOf: asOf}, tell), nil
	}
}

// errReplaced says that the server which answered may have been that of a later session.
var errReplaced = engine.Answered(fmt.Errorf("%w: the session has been replaced", store.ErrUnavailable))

// still returns nil if the session was the present one until now: all answers that have come were given in it.
func (d *driver) still(sess *session) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stillLocked(sess)
}

// stillLocked is still. The caller holds mu.
func (d *driver) stillLocked(sess *session) error {
	if d.current != sess {
		return errReplaced
	}
	return nil
}

// Ballots implements engine.Driver. It reads every ballot.
func (d *driver) Ballots(ctx context.Context, election string) ([]store.Standing, error) {
	queue, err := d.readQueue(ctx, d.layout.dir(election))
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

// First implements engine.Driver.
func (d *driver) First(ctx context.Context, election string) (engine.State, error) {
	queue, err := d.readQueue(ctx, d.layout.dir(election))
	if err != nil || len(queue) == 0 {
		return engine.State{}, err
	}
	return d.state(queue[0].path, queue[0]), nil
}

// readQueue reads the ballots of an election, some at a time, in the order of their creation.
func (d *driver) readQueue(ctx context.Context, dir string) ([]node, error) {
	nodes, err := d.syncedChildren(ctx, dir)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	var list []node
	for some := range slices.Chunk(d.layout.ballots(nodes), 32) {
		var reads []<-chan result[node]
		for _, p := range some {
			reads = append(reads, async(d, func() (node, error) { return d.readNode(dir + "/" + p.name) }))
		}
		for _, read := range reads {
			n, err := receive(ctx, read)
			switch {
			case err == nil:
				list = append(list, n)
			case !errors.Is(err, zk.ErrNoNode): // that one has gone since
				return nil, err
			}
		}
	}
	slices.SortFunc(list, func(a, b node) int {
		return cmp.Or(cmp.Compare(a.stat.Czxid, b.stat.Czxid), cmp.Compare(a.path, b.path))
	})
	return list, nil
}
