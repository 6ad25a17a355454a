// Package etcd is the store for etcd: ballots are keys on one lease, in the order of their creation revisions. It is
// tested with etcd 3.7.3. Releases without the fix of etcd's issue 15247 (pull request 16822) let a member that has
// been deposed revoke leases that live, which ends a session early. Endpoints must be members: etcd's grpc-proxy does
// not answer requests for the progress of watches, so a follower's knowledge is never confirmed.
//
//	import _ "github.com/go-leadership/leadership/store/etcd"
//	st, err := store.Open(ctx, "etcd://10.0.0.1:2379,10.0.0.2:2379/prod?ttl=10s", nil)
//
// or [Open] with a [Config]. Options of the URL: ttl and grace; with the scheme etcd+tls also cacert, cert, key and
// servername. The path of the URL is the prefix of all keys, user and password are a user of the cluster.
//
// Candidates that use the client's own concurrency.Election, or etcdctl elect, with the name
// <prefix>/<election>/_ballots stand in the same queue. The acknowledged value is at <prefix>/<election>.
//
// A crashed leader is replaced within its TTL and a second, and within two TTLs and 4 s if the cluster's leader dies
// too: the next one counts every lease's TTL anew. A lease ends early only if it is revoked, a term also if a client
// deletes the ballot. The holder notices with the next event from its endpoint, and its successor might lead a moment
// before that. A waiter whose ballot is deleted together with those ahead of it might be first for that moment.
//
// The fencing token is the ballot's CreateRevision, and a leader's revision the ModRevision of the acknowledgement.
// Both go back if a cluster is restored from an old copy of its data.
//
// docs/backends.md compares the stores, and has the limits of each.
package etcd

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/looks"
	"github.com/go-leadership/leadership/internal/polls"
	"github.com/go-leadership/leadership/store"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Store is one lease, taken at the first Campaign. It implements store.Store.
//
// Its goroutines are connect, until there is a client; keepAlive, which renews the lease while there is one; watch,
// which keeps the stream of watches; tend, which confirms; the orphans' Sweep, which removes what was left behind; and
// one for each ballot. Close waits for all of them.
type Store struct {
	config   Config        // without the password
	password func() string // a function, so that no fmt verb prints it
	layout   layout

	life    *adapter.Life
	closing sync.Once

	watches watches
	looks   looks.Turns
	polls   polls.Set
	orphans *adapter.Orphans[orphan]

	endpoints int    // constant: how many there are
	mark      string // constant: begins the nonces of this store's ballots

	opening chan struct{} // holds one value while a lease is being granted

	mu        sync.Mutex
	changed   chan struct{}    // guarded by mu, as are all below: closed and replaced when there is a client, or will be none
	client    *clientv3.Client // set once: read without mu after connect has set it
	refused   error            // why there is no client: its user is denied
	trouble   error            // why there is no answer, if that is known
	worked    bool             // the cluster has answered
	trip      time.Duration    // the shorter of the last two round trips
	lastTrip  time.Duration    // the last one
	allowed   time.Duration    // what the next request may take; it grows while none is answered
	current   *session         // nil before the first and between two
	pending   int64            // the id of a lease whose grant has not been answered; 0 if there is none
	confirmed time.Time
	revisions revisions
	ballots   map[*ballot]struct{}
	names     map[string]struct{} // the keys of ballots that are being cast, stand, or are being removed
	lines     map[string]*line    // the last one dialled, by endpoint
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
		life:     adapter.NewLife("etcd", config.TLS != nil, strings.Join(endpoints, ",")+"/"+config.Prefix),
		opening:  make(chan struct{}, 1),
		changed:  make(chan struct{}),
		client:   config.Client, endpoints: len(endpoints), mark: newMark(), names: map[string]struct{}{},
		ballots: map[*ballot]struct{}{},
		lines:   map[string]*line{},
	}
	s.orphans = adapter.NewOrphans(s.life, 32, s.remove, s.abandonFor)
	s.watches.queued = make(chan struct{}, 1)
	if s.client == nil {
		s.life.Go(s.connect)
	}
	s.life.Go(s.watch)
	s.life.Go(s.tend)
	s.life.Go(s.orphans.Sweep)
	return s, nil
}

// renewal is how often the lease is renewed and the store confirmed.
func (s *Store) renewal() time.Duration { return s.config.TTL / 4 }

// tend looks now and then for what no watch has told, and confirms what the watches have told so far.
func (s *Store) tend() {
	for {
		_, err := s.connected(s.life.Background)
		if err == nil {
			break
		}
		if s.life.Background.Err() != nil || errors.Is(err, store.ErrClosed) {
			return
		}
		adapter.PauseFor(s.life.Background, s.renewal()) // refused
	}
	ticker := time.NewTicker(s.renewal())
	defer ticker.Stop()
	for {
		s.confirm()
		select {
		case <-ticker.C:
			s.looks.Next()
			s.watches.rest()
		case <-s.life.Background.Done():
			return
		}
	}
}

// confirm finds out that the watches have told all there was at this moment: a read says how far the cluster has come,
// and then the stream of watches, in the course of its events, that it has come as far.
func (s *Store) confirm() {
	sent := time.Now()
	resp, err := s.get(s.life.Background, s.config.Prefix+"/", clientv3.WithCountOnly())
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

// TTL implements store.Store.
func (s *Store) TTL() time.Duration { return s.config.TTL }

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

func (s *Store) shutDown() {
	s.life.Close() // first: no campaign wins from now on
	s.endLeases()
	ctx, cancel := context.WithTimeout(s.life.Background, closeLimit)
	defer cancel()
	select {
	case s.opening <- struct{}{}: // no lease is being granted any more
	case <-ctx.Done():
	}
	s.endLeases() // that of a session which was granted meanwhile
	s.revokeAll(ctx)
	s.life.Stop()
	s.mu.Lock()
	s.end(adapter.ErrClosed)
	s.mu.Unlock()
	s.life.Wait()
	if s.config.Client == nil && s.client != nil {
		_ = s.client.Close() // says only that its context, which is ours, has ended
	}
}

// endLeases loses all ballots and then ends the lease: a term whose lease ends asks its ballot why.
func (s *Store) endLeases() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for b := range s.ballots {
		b.LoseWith(adapter.ErrClosed)
	}
	if s.current != nil {
		s.current.lease.End()
	}
}
