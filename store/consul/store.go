// Package consul elects over HashiCorp Consul: ballots are keys that a session locks and takes with it when it ends,
// in the order of their CreateIndex, each watching the one before it by a blocking query.
//
//	import _ "github.com/go-leadership/leadership/store/consul"
//	st, err := store.Open(ctx, "consul://127.0.0.1:8500/prod?ttl=10s")
//
// or [Open] with a [Config]. Options of the URL: ttl, grace, dc, namespace, partition, lockdelay; with the scheme
// consul+tls also cacert, cert, key and servername. The path of the URL is the prefix of all keys, its password the ACL
// token, which needs key:write on the prefix, session:write on the agent's node and, where the ttl is below 10 s,
// service:write on the service "leadership". To follow, key:read is enough.
//
// The acknowledged value is at <prefix>/<election>, as it is, for clients in any language.
//
// A crashed leader is replaced within twice its TTL and a second; with a TTL below 10 s, within the TTL and 1.5 s, in
// which the agent tells its servers. Sessions end early where the agent leaves, its node or the store's check is
// deregistered, or somebody destroys the session; so do ballots that somebody deletes. The holder is told by a watch
// and stops, as it does when its agent refuses connections; its successor may lead a moment before, and a waiter whose
// ballot is deleted together with those ahead of it may be first for a moment. Where that matters, fence with the
// token, or give the successor a time to wait with lockdelay.
//
// The fencing token is the ballot's CreateIndex, which no removal of keys sets back, and a leader's revision the
// ModifyIndex of the acknowledgement.
//
// docs/backends.md compares the stores, and has the limits of each.
package consul

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/polls"
	"github.com/go-leadership/leadership/store"
	"github.com/hashicorp/consul/api"
)

// Store is one Consul session. It implements store.Store.
//
// Its goroutines are keep, which confirms the session; sweep, which removes what was left behind; one for each ballot,
// each watch with a query of its own, the session's watch, and each request under way. Close waits for all of them.
type Store struct {
	config Config
	layout layout
	name   string // for errors: the URL without credentials
	client *api.Client
	dialer *dialer // nil with a client of the caller's, as are lines
	lines  *lines

	ctx        context.Context // of the user's calls: ends when Close is called
	close      context.CancelFunc
	background context.Context // of the store's own work: ends when Close has cleaned up
	stop       context.CancelFunc
	tasks      sync.WaitGroup

	closing sync.Once

	opening chan struct{} // has room for the one who opens a session
	due     chan struct{} // has room for one: the session is to be confirmed now
	looking sync.Mutex    // held while a look is under way
	watches watches
	polls   polls.Set
	orphans orphans

	mu        sync.Mutex
	closed    bool     // guarded by mu, as are all below; no task starts once it is set
	current   *session // nil before the first and between two
	confirmed time.Time
	trouble   error                // what went wrong last
	ballots   map[*ballot]struct{} // that have not been lost
}

// Open opens a store. It checks the settings; it does not wait for the service.
func Open(config Config) (*Store, error) {
	dial := config.Dial != nil
	config = config.withDefaults()
	if err := config.check(dial); err != nil {
		return nil, err
	}
	s := &Store{
		config: config, layout: layout{config.Prefix}, client: config.Client,
		name:    "consul://" + strings.Join(config.Addresses, ",") + "/" + config.Prefix,
		opening: make(chan struct{}, 1), due: make(chan struct{}, 1), ballots: map[*ballot]struct{}{},
	}
	s.background, s.stop = context.WithCancel(context.Background())
	s.ctx, s.close = context.WithCancel(s.background)
	s.orphans.added = make(chan struct{}, 1)
	s.watches.byKey = map[string]*watch{}
	s.watches.changed = make(chan struct{}, 1)
	if s.client == nil {
		s.dialer = &dialer{addresses: config.Addresses, dial: config.Dial, tls: config.TLS, ctx: s.background}
		s.dialer.conns = map[*tracked]struct{}{}
		s.lines = newLines(s.dialer, config)
		var err error
		if s.client, err = newClient(s.lines, config); err != nil {
			s.stop()
			return nil, refuse("addresses", strings.Join(config.Addresses, ","), "%v", err)
		}
	}
	s.tasks.Go(s.keep)
	s.tasks.Go(s.sweep)
	return s, nil
}

// spawn runs a task that Close waits for. It reports false where the store is closed.
func (s *Store) spawn(task func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.tasks.Go(task)
	return true
}

// call begins a user's call: the context it returns ends with the caller's and with the store.
func (s *Store) call(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if s.ctx.Err() != nil {
		return nil, nil, store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(store.ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }, nil
}

func (s *Store) fail(op, election string, err error) error {
	var already *store.Error
	if err == nil || errors.As(err, &already) {
		return err
	}
	return &store.Error{Op: op, Store: s.name, Election: election, Err: err}
}

// pause waits a little before something is tried again.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// again is how long pause waits before a request is tried again.
const again = 50 * time.Millisecond

// Confirmed implements store.Store.
func (s *Store) Confirmed() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.confirmed
}

// confirm says that whatever happened until a time is known.
func (s *Store) confirm(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.After(s.confirmed) {
		s.confirmed = at
	}
}

// closeLimit bounds what Close waits for the service.
const closeLimit = 2 * time.Second

// Close implements store.Store. It destroys the session, and the keys go with it. A client of the caller's goes on.
func (s *Store) Close() error {
	s.closing.Do(s.shutDown)
	return nil
}

// errClosed is why the ballots of a store that was closed are lost.
var errClosed = fmt.Errorf("%w: %w", store.ErrLost, store.ErrClosed)

func (s *Store) shutDown() {
	s.close()
	s.mu.Lock()
	ballots, sess := slices.Collect(maps.Keys(s.ballots)), s.current
	s.mu.Unlock()
	for _, b := range ballots { // before the lease ends, so that whoever sees that knows why
		b.loseWith(errClosed)
	}
	if sess != nil {
		sess.lease.End() // before anybody else can lead
	}
	ctx, cancel := context.WithTimeout(s.background, closeLimit)
	defer cancel()
	select {
	case s.opening <- struct{}{}: // whoever is about to open a session has done so, or has given up
	case <-ctx.Done():
	}
	s.mu.Lock()
	sess = s.current
	s.mu.Unlock()
	if sess != nil {
		sess.end(errClosed)
		s.leaveSeats(ctx, ballots)
		if s.destroy(ctx, sess) == nil {
			s.watches.settle(ctx) // queries that end by themselves leave nothing at the agent
		}
	}
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.tasks.Wait()
	s.watches.close()
	if s.lines != nil {
		s.dialer.closeAll()
		s.lines.close()
	}
}
