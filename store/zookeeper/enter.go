package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-zookeeper/zk"
)

// Enter implements engine.Session. Enter takes two round trips. The first creates the ballot's node. The second reads the
// queue and the node, whose Stat has the token: the library returns none for a creation.
//
// Enter sends one creation for each nonce, and keeps its answer until the engine knows the outcome. After an unknown outcome
// the engine calls Enter again, or Void.
func (s *session) Enter(ctx context.Context, election string, n engine.Nonce, value string) (engine.Entry, error) {
	l, err := s.up(ctx)
	if err != nil {
		return engine.Entry{}, err
	}
	d, dir := s.driver, s.driver.dir(election)
	stem := dir + "/" + ballotStem(n.Name)
	if _, known := s.creations.Load(n.Name); !known {
		s.creations.Store(n.Name, async(l, func(c *zk.Conn) (string, error) {
			return c.Create(stem, []byte(value), zk.FlagEphemeralSequential, acls[d.config.ACL])
		}))
	}
	key, err := s.outcome(ctx, l, dir, n.Name)
	switch {
	case errors.Is(err, store.ErrUnknownOutcome):
		return engine.Entry{}, err
	case key == "":
		s.creations.Delete(n.Name)
		if errors.Is(err, zk.ErrNoNode) {
			if err = l.makeDir(ctx, dir); err == nil {
				return s.Enter(ctx, election, n, value)
			}
		}
		return engine.Entry{}, fmt.Errorf("create %s...: %w", stem, err)
	}
	e, err := l.entry(ctx, election, key)
	switch {
	case err == nil:
		s.creations.Delete(n.Name)
	case adapter.Uncertain(err): // there is a node
		err = fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
	}
	return e, err
}

var errNotCreated = engine.Answered(fmt.Errorf("%w: the ballot was not created", store.ErrUnavailable))

// outcome returns the path of a ballot's node by the answer to its creation. If the answer was lost, outcome searches the queue
// for the node. Without a path, there is no node and never will be, unless the error is store.ErrUnknownOutcome.
func (s *session) outcome(ctx context.Context, l *link, dir, nonce string) (key string, err error) {
	if answer, ok := s.creations.Load(nonce); ok {
		select {
		case made := <-answer.(<-chan result[string]): // the zero result if an earlier call has received it
			if made.value != "" || made.err != nil && !errors.Is(made.err, store.ErrUnknownOutcome) {
				return made.value, made.err
			}
		case <-ctx.Done():
			return "", fmt.Errorf("%w: %w", store.ErrUnknownOutcome, context.Cause(ctx))
		}
	}
	// A request of an earlier connection is carried out before the first confirmation of this one, or never: servers refuse
	// a session that has moved or ended. So the list is final (TestSearchIsBehindTheCreation).
	nodes, err := receive(ctx, l.children(dir))
	if err != nil {
		return "", fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
	}
	i := slices.IndexFunc(nodes, func(name string) bool { return nonceOf(name) == nonce })
	if i < 0 {
		return "", errNotCreated
	}
	return dir + "/" + nodes[i], nil
}

// Void implements engine.Session. Void waits for the answer to a creation that is under way: nothing can make it fail.
func (s *session) Void(ctx context.Context, election string, n engine.Nonce) error {
	l, err := s.up(ctx)
	if err != nil {
		return err
	}
	key, err := s.outcome(ctx, l, s.driver.dir(election), n.Name)
	switch {
	case errors.Is(err, store.ErrUnknownOutcome):
		return err
	case key != "":
		if err := l.delete(ctx, key, -1); err != nil {
			return err
		}
	}
	s.creations.Delete(n.Name)
	return nil
}

// entry reads a ballot's node and the queue at the same time, once the node exists. The read sets the watch that the engine
// asks for next.
func (l *link) entry(ctx context.Context, election, key string) (engine.Entry, error) {
	e := engine.Entry{Election: election, Key: key, Token: 1} // the entry stands, whatever its token is
	listed := l.children(path.Dir(key))
	n, w, err := l.watch(ctx, key, true)
	switch {
	case errors.Is(err, zk.ErrNoNode): // deleted by an operator, or with its session
		return e, engine.ErrGone
	case err != nil:
		return e, err
	}
	l.watches.keep(w, n)
	e.Token = uint64(n.stat.Czxid)
	e.Place, err = l.place(ctx, key, listed)
	return e, err
}

// Ahead implements engine.Driver.
func (d *driver) Ahead(ctx context.Context, e engine.Entry) (engine.Place, error) {
	l, err := d.up(ctx)
	if err != nil {
		return engine.Place{}, err
	}
	return l.place(ctx, e.Key, l.children(path.Dir(e.Key)))
}

// place waits for a list of the election's nodes, and returns what is ahead of an entry.
func (l *link) place(ctx context.Context, key string, listed <-chan result[[]string]) (engine.Place, error) {
	nodes, err := receive(ctx, listed)
	if err != nil {
		return engine.Place{}, err
	}
	return place(key, nodes)
}

// children lists the nodes below a node; none if the node does not exist.
func (l *link) children(dir string) <-chan result[[]string] {
	return async(l, func(c *zk.Conn) ([]string, error) {
		nodes, _, err := c.Children(dir)
		if errors.Is(err, zk.ErrNoNode) {
			return nil, nil
		}
		return nodes, err
	})
}

// syncedChildren lists the nodes as of the call or later, even if the server lags behind.
func (l *link) syncedChildren(ctx context.Context, dir string) ([]string, error) {
	if err := l.sync(ctx); err != nil {
		return nil, err
	}
	return receive(ctx, l.children(dir))
}

// makeDir creates a directory, with all missing ones above it.
func (l *link) makeDir(ctx context.Context, dir string) error {
	_, err := request(ctx, l, func(c *zk.Conn) (string, error) {
		return c.Create(dir, nil, zk.FlagPersistent, acls[l.driver.config.ACL])
	})
	switch {
	case err == nil, errors.Is(err, zk.ErrNodeExists):
		return nil
	case adapter.Uncertain(err): // no request of the ballot is under way
		return fmt.Errorf("%w: create %s: %v", store.ErrUnavailable, dir, err)
	case errors.Is(err, zk.ErrNoNode) && path.Dir(dir) != "/":
		if err := l.makeDir(ctx, path.Dir(dir)); err != nil {
			return err
		}
		return l.makeDir(ctx, dir)
	}
	return fmt.Errorf("create %s: %w", dir, err)
}
