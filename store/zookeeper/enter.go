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
	path  string        // written before done is closed, as are err and nodes
	err   error
	nodes []string // of the election: a list taken behind the creation, as a rule; nil if there is none
}

// Enter implements engine.Session. With the election's nodes in place it takes two round trips: the node's creation and
// the list of nodes in one, and the watches on the node itself and on the nearest ahead in the other, as the library's
// creation tells no token.
func (s *session) Enter(ctx context.Context, election string, n engine.Nonce, value string) (engine.Entry, error) {
	dir := s.driver.layout.dir(election)
	if err := s.await(ctx); err != nil {
		return engine.Entry{}, err
	}
	path, nodes, err := s.create(ctx, dir, n.Name, value)
	if err != nil {
		return engine.Entry{}, err
	}
	e, err := s.entry(ctx, election, path, nodes)
	switch {
	case err == nil:
		s.forget(n.Name)
	case adapter.Uncertain(err): // there is a node
		err = fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
	}
	return e, err
}

// create creates the ballot's node, or finds what became of a request to create it. It returns the path of the node, and
// a list of the election's nodes that may be nil.
func (s *session) create(ctx context.Context, dir, nonce, value string) (path string, nodes []string, err error) {
	c, err := s.creation(ctx, dir, nonce, value)
	if err != nil {
		return "", nil, err
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		return "", nil, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, context.Cause(ctx))
	}
	switch {
	case c.err == nil:
		return c.path, c.nodes, nil
	case errors.Is(c.err, store.ErrUnknownOutcome):
		name, nodes, err := s.driver.find(ctx, dir, nonce)
		switch {
		case err != nil:
			return "", nil, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
		case name == "":
			s.forget(nonce)
			return "", nil, fmt.Errorf("%w: the ballot was not created", store.ErrUnavailable)
		}
		return dir + "/" + name, nodes, nil
	}
	s.forget(nonce)
	if errors.Is(c.err, zk.ErrNoNode) { // as also if it has overtaken the one before it
		if err := s.driver.makeDir(ctx, dir); err != nil {
			return "", nil, err
		}
		return s.create(ctx, dir, nonce, value)
	}
	return "", nil, fmt.Errorf("create %s...: %w", dir+"/"+s.driver.layout.ballotStem(nonce), c.err)
}

// creation returns the request that is known for a nonce, or sends one, if there is a connection.
func (s *session) creation(ctx context.Context, dir, nonce, value string) (*creation, error) {
	s.mu.Lock()
	c := s.creations[nonce]
	s.mu.Unlock()
	if c != nil {
		return c, nil
	}
	d := s.driver
	if err := d.awaitConnection(ctx); err != nil {
		return nil, err
	}
	c = &creation{done: make(chan struct{})}
	s.mu.Lock()
	s.creations[nonce] = c
	s.mu.Unlock()
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
		if s.over() {
			s.driver.sweep(c, dir, nonce)
		}
	}
	if !d.life.Go(await) {
		await() // both have failed
	}
	return c, nil
}

// forget is called when what became of a creation is known.
func (s *session) forget(nonce string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.creations, nonce)
}

// sweep removes a node that was created in another session than it was meant for.
func (d *driver) sweep(c *creation, dir, nonce string) {
	for ctx := d.life.Background; ctx.Err() == nil; adapter.Pause(ctx) {
		if err := d.remove(ctx, c, dir, nonce); err == nil || !adapter.Uncertain(err) {
			return
		}
	}
}

// remove removes the node of a creation that has an outcome, and returns nil once it is known that there is none.
func (d *driver) remove(ctx context.Context, c *creation, dir, nonce string) error {
	switch {
	case c == nil, errors.Is(c.err, store.ErrUnknownOutcome):
		name, _, err := d.find(ctx, dir, nonce)
		if err != nil || name == "" {
			return err
		}
		return d.delete(ctx, dir+"/"+name)
	case c.err == nil:
		return d.delete(ctx, c.path)
	}
	return nil
}

// Void implements engine.Session. A request that is on its way is waited for: there is no way to make it fail.
func (s *session) Void(ctx context.Context, election string, n engine.Nonce) error {
	s.mu.Lock()
	c := s.creations[n.Name]
	s.mu.Unlock()
	if c != nil {
		select {
		case <-c.done:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, context.Cause(ctx))
		}
	}
	if err := s.await(ctx); err != nil {
		return err
	}
	err := s.driver.remove(ctx, c, s.driver.layout.dir(election), n.Name)
	if c != nil && c.err == nil {
		err = s.unlessGone(ctx, c.path, err)
	}
	if err == nil {
		s.forget(n.Name)
	}
	return err
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
	var nonces []string
	for _, p := range ahead {
		if nonce := l.nonce(p.name); nonce != "" {
			nonces = append(nonces, nonce)
		}
	}
	return engine.Place{Nearest: dir + ahead[len(ahead)-1].name, More: len(ahead) > 1, Nonces: nonces}, nil
}

// find looks for the ballot with the nonce after a creation whose outcome is unknown; the name is empty if there is none.
// The barrier makes the answer final: what was sent on an earlier connection is carried out before it or never, because
// a session that has moved on, or ended, is refused.
func (d *driver) find(ctx context.Context, dir, nonce string) (name string, nodes []string, err error) {
	nodes, err = d.syncedChildren(ctx, dir)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return "", nil, err
	}
	name, _ = d.layout.find(nodes, nonce)
	return name, nodes, nil
}

// children lists an election's nodes.
func (d *driver) children(dir string) ([]string, error) {
	nodes, _, err := d.conn.Children(dir)
	return nodes, err
}

// syncedChildren lists the nodes as they are on the ensemble's leader.
func (d *driver) syncedChildren(ctx context.Context, dir string) ([]string, error) {
	if _, err := d.await(ctx); err != nil {
		return nil, err
	}
	if _, err := request(ctx, d, func() (struct{}, error) { return struct{}{}, d.barrier() }); err != nil {
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
