package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-zookeeper/zk"
)

// creation is a request to create a ballot's node, from when it is sent until the engine knows what became of it. The
// library may send it late, on a later connection, and even in a later session.
type creation struct {
	done  chan struct{} // closed when there is an outcome
	path  string        // written before done is closed, as are err and nodes; empty if there is none
	err   error
	nodes []string // of the election: a list taken behind the creation, as a rule; nil if there is none
}

// Enter implements engine.Session. With the election's nodes in place it takes two round trips: the node's creation and
// the list of nodes in one, and the watches on the node itself and on the nearest ahead in the other, as the library's
// creation tells no token.
func (s *session) Enter(ctx context.Context, election string, n engine.Nonce, value string) (engine.Entry, error) {
	d, dir := s.driver, s.driver.layout.dir(election)
	if err := s.await(ctx); err != nil {
		return engine.Entry{}, err
	}
	c, err := s.creation(ctx, dir, n.Name, value)
	if err != nil {
		return engine.Entry{}, err
	}
	path, nodes, err := d.outcome(ctx, c, dir, n.Name)
	switch {
	case err != nil:
		return engine.Entry{}, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
	case path == "":
		s.creations.Delete(n.Name)
		switch {
		case errors.Is(c.err, store.ErrUnknownOutcome):
			return engine.Entry{}, engine.Answered(fmt.Errorf("%w: the ballot was not created", store.ErrUnavailable))
		case !errors.Is(c.err, zk.ErrNoNode):
			return engine.Entry{}, fmt.Errorf("create %s...: %w", dir+"/"+d.layout.ballotStem(n.Name), c.err)
		}
		if err := d.makeDir(ctx, dir); err != nil { // it is missing, or its creation was overtaken
			return engine.Entry{}, err
		}
		return s.Enter(ctx, election, n, value)
	}
	e, err := s.entry(ctx, election, path, nodes)
	switch {
	case err == nil:
		s.creations.Delete(n.Name)
	case adapter.Uncertain(err): // there is a node
		err = fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
	}
	return e, err
}

// outcome waits for a creation, and returns the node that was created for the nonce with a list of the election's nodes,
// which may be nil. The path is empty if there is none and will be none. Without an answer, and without a creation that is
// known, it looks for the node.
func (d *driver) outcome(ctx context.Context, c *creation, dir, nonce string) (path string, nodes []string, err error) {
	if c != nil {
		select {
		case <-c.done:
		case <-ctx.Done():
			return "", nil, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, context.Cause(ctx))
		}
		if !errors.Is(c.err, store.ErrUnknownOutcome) {
			return c.path, c.nodes, nil
		}
	}
	// The barrier makes this final: what was sent on an earlier connection is carried out before it or never, because a
	// session that has moved on, or ended, is refused (TestSearchIsBehindTheCreation).
	nodes, err = d.syncedChildren(ctx, dir)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return "", nil, err
	}
	if name, ok := d.layout.find(nodes, nonce); ok {
		path = dir + "/" + name
	}
	return path, nodes, nil
}

// creation returns the request that is known for a nonce, or sends one, if there is a connection.
func (s *session) creation(ctx context.Context, dir, nonce, value string) (*creation, error) {
	if c, ok := s.creations.Load(nonce); ok {
		return c.(*creation), nil
	}
	d := s.driver
	if err := d.awaitConnection(ctx); err != nil {
		return nil, err
	}
	c := &creation{done: make(chan struct{})}
	s.creations.Store(nonce, c)
	stem := dir + "/" + d.layout.ballotStem(nonce)
	if d.elections.missing(dir) { // it might exist all the same, or those above it might not
		async(d, func() (string, error) { return d.conn.Create(dir, nil, zk.FlagPersistent, d.acl) })
	}
	created := async(d, func() (string, error) {
		return d.conn.Create(stem, []byte(value), zk.FlagEphemeralSequential, d.acl)
	})
	listed := async(d, func() ([]string, error) { return d.children(dir) })
	await := func() {
		r := <-created
		c.path, c.err = r.value, r.err
		if r.err == nil {
			c.nodes = (<-listed).value
		}
		close(c.done)
		select {
		case <-s.lost:
			s.sweep(c, dir, nonce)
		default:
		}
	}
	if !d.lifecycle.Go(await) {
		await() // both have failed
	}
	return c, nil
}

// sweep removes a node that was created in another session than it was meant for: the engine takes all of that session
// for gone, so the node would block others (TestCreationSentInTheNextSessionIsSwept).
func (s *session) sweep(c *creation, dir, nonce string) {
	for ctx := s.driver.lifecycle.Background; ctx.Err() == nil; adapter.Pause(ctx) {
		if err := s.void(ctx, c, dir, nonce); err == nil || !adapter.Uncertain(err) {
			return
		}
	}
}

// Void implements engine.Session. A request that is on its way is waited for: there is no way to make it fail.
func (s *session) Void(ctx context.Context, election string, n engine.Nonce) error {
	if err := s.await(ctx); err != nil {
		return err
	}
	known, _ := s.creations.Load(n.Name)
	c, _ := known.(*creation)
	err := s.void(ctx, c, s.driver.layout.dir(election), n.Name)
	if err == nil {
		s.creations.Delete(n.Name)
	}
	return err
}

// void removes the node that a creation has made, if any.
func (s *session) void(ctx context.Context, c *creation, dir, nonce string) error {
	path, _, err := s.driver.outcome(ctx, c, dir, nonce)
	if err != nil || path == "" {
		return err
	}
	return s.unlessGone(ctx, path, s.driver.delete(ctx, path))
}

// entry reads a ballot's own node and finds its place. nodes is a list that may have been taken too early. It sets the
// watches on both nodes that the engine is going to ask for, at once: neither waits for the other's answer.
func (s *session) entry(ctx context.Context, election, path string, nodes []string) (engine.Entry, error) {
	d := s.driver
	e := engine.Entry{Election: election, Key: path, Token: 1} // it stands, whatever its token is
	place, err := d.layout.place(path, nodes)
	if err != nil { // the list was taken too early
		if place, err = d.Ahead(ctx, e); err != nil {
			return e, err
		}
	}
	e.Place = place
	nearest := make(chan struct{})
	go func() {
		defer close(nearest)
		if place.Nearest != "" {
			if n, w, err := d.watch(ctx, watchKey{place.Nearest, false}, true); err == nil { // if not, the engine finds out
				d.watches.keep(w, n)
				d.elections.met(place.Nearest, n.stat.EphemeralOwner)
			}
		}
	}()
	n, w, err := d.watch(ctx, watchKey{path, false}, true)
	<-nearest
	switch {
	case errors.Is(err, zk.ErrNoNode): // deleted by an operator, or with its session
		return e, engine.ErrGone
	case err != nil:
		return e, err
	case n.stat.EphemeralOwner != s.id: // created in another session
		d.watches.remove(w)
		return e, engine.ErrGone
	}
	d.watches.keep(w, n)
	e.Token = uint64(n.stat.Czxid)
	return e, nil
}

// Ahead implements engine.Driver.
func (d *driver) Ahead(ctx context.Context, e engine.Entry) (engine.Place, error) {
	nodes, err := request(ctx, d, func() ([]string, error) { return d.children(path.Dir(e.Key)) })
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return engine.Place{}, err
	}
	return d.layout.place(e.Key, nodes)
}

// place returns what is ahead of an entry in a list of nodes, or engine.ErrGone if it is not in the list.
func (l layout) place(key string, nodes []string) (engine.Place, error) {
	dir, name := path.Split(key)
	ahead, listed := l.ahead(nodes, name)
	if !listed {
		return engine.Place{}, engine.ErrGone
	}
	if len(ahead) == 0 {
		return engine.Place{}, nil
	}
	return engine.Place{Nearest: dir + ahead[len(ahead)-1].name, More: len(ahead) > 1}, nil
}

// children lists an election's nodes.
func (d *driver) children(dir string) ([]string, error) {
	nodes, _, err := d.conn.Children(dir)
	return nodes, err
}

// syncedChildren lists the nodes as they are on the ensemble's leader.
func (d *driver) syncedChildren(ctx context.Context, dir string) ([]string, error) {
	if err := d.Confirm(ctx); err != nil {
		return nil, err
	}
	return request(ctx, d, func() ([]string, error) { return d.children(dir) })
}

// makeDir creates a directory and those above it that are missing.
func (d *driver) makeDir(ctx context.Context, dir string) error {
	_, err := request(ctx, d, func() (string, error) { return d.conn.Create(dir, nil, zk.FlagPersistent, d.acl) })
	switch {
	case err == nil, errors.Is(err, zk.ErrNodeExists):
		return nil
	case adapter.Uncertain(err): // nothing of the ballot has been sent
		return fmt.Errorf("%w: create %s: %v", store.ErrUnavailable, dir, err)
	case errors.Is(err, zk.ErrNoNode) && path.Dir(dir) != "/":
		if err := d.makeDir(ctx, path.Dir(dir)); err != nil {
			return err
		}
		return d.makeDir(ctx, dir)
	}
	return fmt.Errorf("create %s: %w", dir, err)
}
