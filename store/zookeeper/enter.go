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

// creation is a request to create a ballot's node, from when it is sent until the engine knows what became of it.
type creation struct {
	done  chan struct{} // closed when there is an outcome
	path  string        // written before done is closed, as are err and nodes; empty if there is none
	err   error
	nodes []string // of the election: a list taken behind the creation, as a rule; nil if there is none
}

// Enter implements engine.Session. If the election's node exists, Enter takes two round trips. The first creates the
// ballot's node and lists the nodes. The second reads the token, which the library does not tell of a creation, and sets
// the watches on the ballot and on the nearest ahead.
func (s *session) Enter(ctx context.Context, election string, n engine.Nonce, value string) (engine.Entry, error) {
	l, err := s.up(ctx)
	if err != nil {
		return engine.Entry{}, err
	}
	d, dir := s.driver, s.driver.layout.dir(election)
	c := s.creation(l, dir, n.Name, value)
	path, nodes, err := l.outcome(ctx, c, dir, n.Name)
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
		if err := l.makeDir(ctx, dir); err != nil { // the directory is missing, or the ballot has overtaken its creation
			return engine.Entry{}, err
		}
		return s.Enter(ctx, election, n, value)
	}
	e, err := l.entry(ctx, election, path, nodes)
	switch {
	case err == nil:
		s.creations.Delete(n.Name)
	case adapter.Uncertain(err): // there is a node
		err = fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
	}
	return e, err
}

// outcome waits for a creation, and returns the node that was created for the nonce with a list of the election's nodes,
// which might be nil. The path is empty if there is no node and will be none. Without an answer, and without a creation
// that is known, outcome looks for the node.
func (l *link) outcome(ctx context.Context, c *creation, dir, nonce string) (path string, nodes []string, err error) {
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
	// What was sent on an earlier connection is carried out before the first confirmation of this one or never, because a
	// session that has moved on, or ended, is refused. So the list is final (TestSearchIsBehindTheCreation).
	nodes, err = request(ctx, l, func(c *zk.Conn) ([]string, error) { return children(c, dir) })
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return "", nil, err
	}
	if name, ok := l.driver.layout.find(nodes, nonce); ok {
		path = dir + "/" + name
	}
	return path, nodes, nil
}

// creation returns the request that is known for a nonce, or sends one.
func (s *session) creation(l *link, dir, nonce, value string) *creation {
	if c, ok := s.creations.Load(nonce); ok {
		return c.(*creation)
	}
	d := s.driver
	made := &creation{done: make(chan struct{})}
	s.creations.Store(nonce, made)
	stem := dir + "/" + d.layout.ballotStem(nonce)
	if d.elections.missing(dir) { // the directory might exist all the same, or its parents might not
		async(l, func(c *zk.Conn) (string, error) { return c.Create(dir, nil, zk.FlagPersistent, d.acl) })
	}
	created := async(l, func(c *zk.Conn) (string, error) {
		return c.Create(stem, []byte(value), zk.FlagEphemeralSequential, d.acl)
	})
	listed := async(l, func(c *zk.Conn) ([]string, error) { return children(c, dir) })
	await := func() {
		r := <-created
		if made.path, made.err = r.value, r.err; r.err == nil {
			made.nodes = (<-listed).value
		}
		close(made.done)
	}
	if !d.lifecycle.Go(await) {
		await() // both have failed
	}
	return made
}

// Void implements engine.Session. Void waits for a request that is on its way: no request of ours makes another fail.
func (s *session) Void(ctx context.Context, election string, n engine.Nonce) error {
	l, err := s.up(ctx)
	if err != nil {
		return err
	}
	known, _ := s.creations.Load(n.Name)
	c, _ := known.(*creation)
	path, _, err := l.outcome(ctx, c, s.driver.layout.dir(election), n.Name)
	if err == nil && path != "" {
		err = l.deleteOwn(ctx, path)
	}
	if err == nil {
		s.creations.Delete(n.Name)
	}
	return err
}

// entry reads a ballot's node and finds the ballot's place. nodes is a list that might have been taken too early. The
// watches on the ballot and on the nearest ahead, which the engine is going to ask for, are set at the same time.
func (l *link) entry(ctx context.Context, election, path string, nodes []string) (engine.Entry, error) {
	d := l.driver
	e := engine.Entry{Election: election, Key: path, Token: 1} // the entry stands, whatever its token is
	place, err := d.layout.place(path, nodes)
	if err != nil { // the list was taken too early
		if place, err = l.ahead(ctx, path); err != nil {
			return e, err
		}
	}
	e.Place = place
	nearest := make(chan struct{})
	go func() {
		defer close(nearest)
		if place.Nearest != "" {
			if n, w, err := l.watch(ctx, place.Nearest, true); err == nil { // if not, the engine finds out
				l.watches.keep(w, n)
				d.elections.met(place.Nearest, n.stat.EphemeralOwner)
			}
		}
	}()
	n, w, err := l.watch(ctx, path, true)
	<-nearest
	switch {
	case errors.Is(err, zk.ErrNoNode): // deleted by an operator, or with its session
		return e, engine.ErrGone
	case err != nil:
		return e, err
	}
	l.watches.keep(w, n)
	e.Token = uint64(n.stat.Czxid)
	return e, nil
}

// Ahead implements engine.Driver.
func (d *driver) Ahead(ctx context.Context, e engine.Entry) (engine.Place, error) {
	l, err := d.up(ctx)
	if err != nil {
		return engine.Place{}, err
	}
	return l.ahead(ctx, e.Key)
}

// ahead reads what is ahead of an entry.
func (l *link) ahead(ctx context.Context, key string) (engine.Place, error) {
	nodes, err := request(ctx, l, func(c *zk.Conn) ([]string, error) { return children(c, path.Dir(key)) })
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return engine.Place{}, err
	}
	return l.driver.layout.place(key, nodes)
}

// children lists an election's nodes.
func children(c *zk.Conn, dir string) ([]string, error) {
	nodes, _, err := c.Children(dir)
	return nodes, err
}

// syncedChildren lists the nodes as they are on the ensemble's leader.
func (l *link) syncedChildren(ctx context.Context, dir string) ([]string, error) {
	if err := l.sync(ctx); err != nil {
		return nil, err
	}
	return request(ctx, l, func(c *zk.Conn) ([]string, error) { return children(c, dir) })
}

// makeDir creates a directory and those above it that are missing.
func (l *link) makeDir(ctx context.Context, dir string) error {
	_, err := request(ctx, l, func(c *zk.Conn) (string, error) {
		return c.Create(dir, nil, zk.FlagPersistent, l.driver.acl)
	})
	switch {
	case err == nil, errors.Is(err, zk.ErrNodeExists):
		return nil
	case adapter.Uncertain(err): // nothing of the ballot has been sent
		return fmt.Errorf("%w: create %s: %v", store.ErrUnavailable, dir, err)
	case errors.Is(err, zk.ErrNoNode) && path.Dir(dir) != "/":
		if err := l.makeDir(ctx, path.Dir(dir)); err != nil {
			return err
		}
		return l.makeDir(ctx, dir)
	}
	return fmt.Errorf("create %s: %w", dir, err)
}
