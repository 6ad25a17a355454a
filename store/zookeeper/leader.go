package zookeeper

import (
	"context"
	"errors"
	"fmt"
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
	state := state(n)
	return l.watches.begin(w, engine.News{State: &state}, tell), nil
}

// state returns the state of an entry.
func state(n node) engine.State {
	return engine.State{
		Token:   uint64(n.stat.Czxid),
		Session: sessionName(n.stat.EphemeralOwner),
		Nonce:   nonceOf(n.path),
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
	return l.sync(ctx)
}

// sync sends a barrier. Later reads of the connection are as of the barrier, or later.
func (l *link) sync(ctx context.Context) error {
	sent := time.Now()
	_, err := request(ctx, l, barrier)
	if err == nil {
		l.confirms(sent)
	}
	return err
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
	path := d.ackPath(election)
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
