package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-zookeeper/zk"
)

// Campaign implements store.Store. With the election's nodes in place it takes two round trips: the ballot's creation
// and the list of ballots in one, the watches on the own ballot and on the one before it in the other. Where the
// service can't be reached for longer than the TTL it gives up, so that its caller can say so, and try again.
func (s *Store) Campaign(ctx context.Context, election, value string) (store.Ballot, error) {
	if err := errors.Join(store.CheckElection(election), store.CheckValue(value)); err != nil {
		return nil, err
	}
	s.orphans.Expect(1) // before Call: Close waits for what may come of this
	defer s.orphans.Expect(-1)
	ctx, done, err := s.life.Call(ctx)
	if err != nil {
		return nil, s.life.Fail("campaign", election, err)
	}
	defer done()
	for {
		b, err := s.cast(ctx, election, value)
		switch {
		case err == nil:
			return b, nil
		case ctx.Err() != nil:
			return nil, s.life.Fail("campaign", election, s.unreached(ctx))
		case !errors.Is(err, errAgain):
			return nil, s.life.Fail("campaign", election, err)
		}
	}
}

// errAgain says that the ballot just cast is of no use, and is being removed: cast another.
var errAgain = errors.New("cast another ballot")

// cast casts one ballot and takes its place in the queue.
func (s *Store) cast(ctx context.Context, election, value string) (*ballot, error) {
	dir, nonce := s.layout.dir(election), s.nonces.take()
	name, nodes, err := s.create(ctx, dir, nonce, value)
	if err != nil {
		s.nonces.free(nonce)
		return nil, err
	}
	b := &ballot{Ballot: adapter.NewBallot(s.life, election), store: s, dir: dir, name: name, nonce: nonce}
	if err := b.join(ctx, nodes); err != nil {
		s.nonces.free(nonce)
		s.orphans.Add(orphan{path: b.path()})
		return nil, err
	}
	s.mu.Lock()
	s.ballots[b] = struct{}{}
	s.mu.Unlock()
	if !s.life.Go(b.run) || s.life.Calls.Err() != nil { // run has seen to the node, or the session has ended
		return nil, store.ErrClosed
	}
	return b, nil
}

// create creates the ballot's node and lists the nodes behind it. It returns the name of the node exactly where there
// is one that the caller has to care for. Where the outcome is unknown it looks for the nonce, so that there is never
// a second node.
func (s *Store) create(ctx context.Context, dir, nonce, value string) (name string, nodes []string, err error) {
	stem := dir + "/" + s.layout.ballotStem(nonce)
	for {
		if err := s.reach(ctx); err != nil {
			return "", nil, err
		}
		created := async(s, func() (string, error) {
			return s.conn.Create(stem, []byte(value), zk.FlagEphemeralSequential, s.acl)
		})
		listed := async(s, func() ([]string, error) { return s.children(dir) }) // behind it, as a rule
		p, err := receive(ctx, created)
		switch {
		case err == nil:
			nodes, err := receive(ctx, listed)
			if err != nil {
				nodes = nil // to be listed again
			}
			return path.Base(p), nodes, nil
		case ctx.Err() != nil:
			s.orphans.Expect(1)
			s.life.Go(func() { s.disown(created, dir, nonce) })
			return "", nil, err
		case errors.Is(err, zk.ErrNoNode):
			if err := s.makeDir(ctx, dir); err != nil {
				return "", nil, err
			}
		case errors.Is(err, store.ErrUnavailable):
			s.pause(ctx)
		case errors.Is(err, store.ErrUnknownOutcome):
			name, nodes, err := s.find(ctx, dir, nonce)
			if name != "" || err != nil {
				return name, nodes, err
			}
			s.config.Logger.Warn("a ballot was not created, going to try again", "store", s.life.Name, "path", stem)
			s.pause(ctx)
		default:
			return "", nil, fmt.Errorf("create %s...: %w", stem, err)
		}
	}
}

// reach waits for a session, for an outage of some length at most: its caller is to know.
func (s *Store) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, max(s.config.TTL, 5*time.Second), store.ErrUnavailable)
	defer cancel()
	_, err := s.await(ctx)
	return err
}

// disown removes the node that a request may create whose caller has gone.
func (s *Store) disown(created <-chan result[string], dir, nonce string) {
	defer s.orphans.Expect(-1)
	r := <-created
	switch {
	case r.err == nil:
		s.orphans.Add(orphan{path: r.value})
	case adapter.Uncertain(r.err):
		s.orphans.Add(orphan{dir: dir, nonce: nonce})
	}
}

// find looks for the ballot with the nonce after a creation whose outcome is unknown; the name is empty where there
// is none. The barrier makes the answer final: what was sent on an earlier connection is carried out before it or never,
// because a session that has moved on, or ended, is refused.
func (s *Store) find(ctx context.Context, dir, nonce string) (name string, nodes []string, err error) {
	for {
		nodes, err := s.syncedChildren(ctx, dir)
		switch {
		case err == nil:
			name, _ := s.layout.find(nodes, nonce)
			return name, nodes, nil
		case errors.Is(err, zk.ErrNoNode):
			return "", nil, nil
		case ctx.Err() != nil || !adapter.Uncertain(err):
			s.orphans.Add(orphan{dir: dir, nonce: nonce})
			return "", nil, err
		}
		s.pause(ctx)
	}
}

// children lists an election's nodes, and has ballots of this store's removed that have no owner.
func (s *Store) children(dir string) ([]string, error) {
	nodes, _, err := s.conn.Children(dir)
	for _, path := range s.nonces.unowned(s.layout, dir, nodes) {
		s.orphans.Add(orphan{path: path})
	}
	return nodes, err
}

// syncedChildren lists the nodes as they are on the ensemble's leader.
func (s *Store) syncedChildren(ctx context.Context, dir string) ([]string, error) {
	if _, err := s.await(ctx); err != nil {
		return nil, err
	}
	if _, err := request(ctx, s, func() (struct{}, error) { return struct{}{}, s.barrier() }); err != nil {
		return nil, err
	}
	return request(ctx, s, func() ([]string, error) { return s.children(dir) })
}

// makeDir creates a directory and those above it that are missing.
func (s *Store) makeDir(ctx context.Context, dir string) error {
	_, err := request(ctx, s, func() (string, error) { return s.conn.Create(dir, nil, zk.FlagPersistent, s.acl) })
	switch {
	case err == nil, errors.Is(err, zk.ErrNodeExists), adapter.Uncertain(err): // the caller tries again anyway
		return nil
	case errors.Is(err, zk.ErrNoNode) && path.Dir(dir) != "/":
		if err := s.makeDir(ctx, path.Dir(dir)); err != nil {
			return err
		}
		return s.makeDir(ctx, dir)
	}
	return fmt.Errorf("create %s: %w", dir, err)
}
