// Package etcd is the store for etcd: ballots are keys on one lease, in the order of their creation revisions. It is
// tested with etcd 3.7.3. Releases without the fix of etcd's issue 15247 (pull request 16822) let a member that has been
// deposed revoke leases that live, which ends a session early.
//
//	import _ "github.com/go-leadership/leadership/store/etcd"
//	st, err := store.Open(ctx, "etcd://10.0.0.1:2379,10.0.0.2:2379/prod?ttl=10s")
//
// or [Open] with a [Config]. Options of the URL: ttl and grace; with the scheme etcd+tls also cacert, cert, key and
// servername. The path of the URL is the prefix of all keys, user and password are a user of the cluster.
//
// Candidates that use the client's own concurrency.Election, or etcdctl elect, with the name
// <prefix>/<election>/_ballots stand in the same queue. The acknowledged value is at <prefix>/<election>.
//
// A crashed leader is replaced within its TTL and a second. A lease ends early only where somebody revokes it, or
// deletes the ballot: the holder then notices with the next event from its endpoint, and its successor may lead a
// moment before that. A waiter whose ballot is deleted together with those ahead of it may be first for that moment.
//
// The fencing token is the ballot's CreateRevision, and a leader's revision the ModRevision of the acknowledgement.
// Both go back where a cluster is restored from an old copy of its data.
//
// docs/backends.md compares the stores, and has the limits of each.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/looks"
	"github.com/go-leadership/leadership/internal/polls"
	"github.com/go-leadership/leadership/store"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Store is one lease, taken at the first Campaign. It implements store.Store.
//
// Its goroutines are connect, until there is a client; keepAlive, which renews the lease while there is one; watch,
// which keeps the stream of watches; tend, which confirms; sweep, which removes what was left behind; and one for each
// ballot. Close waits for all of them.
type Store struct {
	config   Config        // without the password
	password func() string // out of reach of whoever prints the store
	layout   layout
	name     string // for errors: the URL without credentials

	ctx        context.Context // of the user's calls: ends when Close is called
	close      context.CancelFunc
	background context.Context // of the store's own work: ends when Close has cleaned up
	stop       context.CancelFunc
	tasks      sync.WaitGroup
	closing    sync.Once

	watches watches
	looks   looks.Turns
	polls   polls.Set
	orphans orphans
	opening chan struct{} // holds one value while a lease is being granted

	mu        sync.Mutex
	closed    bool          // guarded by mu, as are all below; no task starts once it is set
	changed   chan struct{} // closed and replaced when the client is there or has been refused
	client    *clientv3.Client
	refused   error // why no client will do
	trouble   error // why there is no answer, where that is known
	patience  time.Duration
	current   *session // nil before the first and between two
	pending   int64    // the id of a lease whose grant has not been answered; 0 where there is none
	confirmed time.Time
	revisions revisions
	ballots   map[*ballot]struct{}
	lines     map[string]*line // the last one dialled, by endpoint
}

// Open opens a store. It checks the settings and begins to connect; it does not wait for the service.
func Open(config Config) (*Store, error) {
	config = config.withDefaults()
	if err := config.check(); err != nil {
		return nil, err
	}
	endpoints := config.Endpoints
	if config.Client != nil {
		endpoints = config.Client.Endpoints()
	}
	password := config.Password
	config.Password = ""
	s := &Store{
		config:   config,
		password: func() string { return password },
		layout:   layout{config.Prefix},
		name:     "etcd://" + strings.Join(endpoints, ",") + "/" + config.Prefix,
		opening:  make(chan struct{}, 1),
		changed:  make(chan struct{}),
		client:   config.Client,
		ballots:  map[*ballot]struct{}{},
		lines:    map[string]*line{},
	}
	s.orphans.added = make(chan struct{}, 1)
	s.watches.queued = make(chan struct{}, 1)
	s.background, s.stop = context.WithCancel(context.Background())
	s.ctx, s.close = context.WithCancel(s.background)
	if s.client == nil {
		s.tasks.Go(s.connect)
	}
	s.tasks.Go(s.watch)
	s.tasks.Go(s.tend)
	s.tasks.Go(s.sweep)
	return s, nil
}

// renewal is how often the lease is renewed and the store confirmed.
func (s *Store) renewal() time.Duration { return s.config.TTL / 4 }

// tend looks now and then for what no watch has told, and confirms what the watches have told so far.
func (s *Store) tend() {
	if _, err := s.connected(s.background); err != nil {
		return // refused or closed: there is nothing to tend
	}
	ticker := time.NewTicker(s.renewal())
	defer ticker.Stop()
	for {
		s.confirm()
		select {
		case <-ticker.C:
			s.looks.Next()
			s.watches.rest()
		case <-s.background.Done():
			return
		}
	}
}

// confirm finds out that the watches have told all there was at this moment: a read says how far the cluster has come,
// and then the stream of watches, in the course of its events, that it has come as far.
func (s *Store) confirm() {
	ctx, cancel := context.WithTimeout(s.background, s.renewal())
	defer cancel()
	sent := time.Now()
	resp, err := s.get(ctx, s.config.Prefix+"/", clientv3.WithCountOnly())
	if err != nil {
		return
	}
	if !s.watches.progress(resp.Header.Revision, sent) {
		s.told(sent)
	}
}

// told is called when the watches have told all there was when the request of that time was sent.
func (s *Store) told(sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.polls.Settled() && sent.After(s.confirmed) {
		s.confirmed = sent
	}
}

// long is how long an outage is waited for in silence.
func (s *Store) long() time.Duration { return max(s.config.TTL, 5*time.Second) }

// set changes the store's state and wakes those who wait for the client.
func (s *Store) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// pause waits a little before a request is tried again.
func (s *Store) pause(ctx context.Context) { s.pauseFor(ctx, 50*time.Millisecond) }

func (s *Store) pauseFor(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
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

// Confirmed implements store.Store.
func (s *Store) Confirmed() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.confirmed
}

// closeLimit bounds what Close asks of the cluster.
const closeLimit = 3 * time.Second

// Close implements store.Store. It revokes the lease, and the keys go with it.
func (s *Store) Close() error {
	s.closing.Do(s.shutDown)
	return nil
}

// errClosed is why the ballots of a store that was closed are lost.
var errClosed = fmt.Errorf("%w: %w", store.ErrLost, store.ErrClosed)

func (s *Store) shutDown() {
	s.mu.Lock()
	for b := range s.ballots {
		b.loseWith(errClosed) // who sees the lease end asks why
	}
	if s.current != nil {
		s.current.lease.End() // before anybody else can lead
	}
	s.mu.Unlock()
	s.close()
	s.revokeAll()
	s.stop()
	s.mu.Lock()
	s.closed = true
	s.end()
	s.mu.Unlock()
	s.tasks.Wait()
	if s.config.Client == nil && s.client != nil {
		_ = s.client.Close() // says only that its context, which is ours, has ended
	}
}
