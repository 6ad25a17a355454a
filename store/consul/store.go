// Package consul elects over HashiCorp Consul: ballots are keys that a session locks and takes with it when it ends,
// in the order of their CreateIndex, each watching the one before it by a blocking query.
//
//	import _ "github.com/go-leadership/leadership/store/consul"
//	st, err := store.Open(ctx, "consul://127.0.0.1:8500/prod?ttl=10s", nil)
//
// or [Open] with a [Config]. Options of the URL: ttl, grace, dc, namespace, partition, lockdelay; with the scheme
// consul+tls also cacert, cert, key and servername. The path of the URL is the prefix of all keys, its password the ACL
// token, which needs key:write on the prefix, session:write on the agent's node and, if the ttl is below 10 s,
// service:write on the service "leadership". To follow, key:read is enough.
//
// The acknowledged value is at <prefix>/<election>, as it is, for clients in any language.
//
// A crashed leader is replaced within twice its TTL and a second. With a TTL below 10 s it is replaced within the TTL
// and 1.5 s, the time in which the agent updates its servers; agents delay that for up to 3 s after a server has
// joined. A session ends early if the agent leaves, if its node or the store's check is deregistered, or if a client
// destroys the session. A ballot ends early if a client deletes it. A watch tells the holder, whose term ends, as it
// does when its agent refuses connections. The successor might lead a moment before, and a waiter whose ballot is
// deleted together with those ahead of it might be first for a moment. If that matters, fence with the token, or make
// the successor wait with lockdelay.
//
// The fencing token is the ballot's CreateIndex, which no removal of keys sets back, and a leader's revision the
// ModifyIndex of the acknowledgement.
//
// docs/backends.md compares the stores, and has the limits of each.
package consul

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/polls"
	"github.com/hashicorp/consul/api"
)

// Store is one Consul session. It implements store.Store.
//
// Its goroutines are keep, which lets the session be confirmed by up to four others, and look look at some of the
// watches; the orphans' Sweep, which removes what was left behind; one for each ballot, each watch with a query of its
// own, the session's watch, and each request under way; overlook while there are watches without a query; retire, which
// clears away a session that was given up; and sweepRevived. Close waits for all of them.
type Store struct {
	config Config
	layout layout
	client *api.Client
	dialer *dialer // nil with a client of the caller's, as are lines
	lines  *lines

	life    *adapter.Life
	closing sync.Once

	opening chan struct{} // has room for the one who opens a session
	opened  chan struct{} // has room for one: there is another session
	due     chan struct{} // has room for one: the session must be confirmed now
	looking sync.Mutex    // held while a look is under way
	watches watches
	polls   polls.Set
	orphans *adapter.Orphans[orphan]
	nonces  nonces
	worked  atomic.Bool // a request has been answered as it should

	sweeping atomic.Bool // sweepRevived is under way

	mu        sync.Mutex
	current   *session // guarded by mu, as are all below; nil before the first and between two
	confirmed time.Time
	trouble   error                // what went wrong last
	ballots   map[*ballot]struct{} // until run has seen that they are lost
	names     map[string]struct{}  // of those ballots, and of those being cast
	discarded map[*session]struct{}
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
		life:    adapter.NewLife("consul", config.TLS != nil, strings.Join(config.Addresses, ",")+"/"+config.Prefix),
		opening: make(chan struct{}, 1), opened: make(chan struct{}, 1), due: make(chan struct{}, 1), ballots: map[*ballot]struct{}{},
		names: map[string]struct{}{}, discarded: map[*session]struct{}{}, nonces: newNonces(),
	}
	s.orphans = adapter.NewOrphans(s.life, 8, s.remove, s.abandonFor)
	s.watches.byKey = map[string]*watch{}
	s.watches.changed = make(chan struct{}, 1)
	if s.client == nil {
		s.dialer = &dialer{addresses: config.Addresses, dial: config.Dial, tls: config.TLS, ctx: s.life.Background}
		s.dialer.conns = map[*tracked]struct{}{}
		s.lines = newLines(s.dialer, config)
		var err error
		if s.client, err = newClient(s.lines, config); err != nil {
			s.life.Stop()
			return nil, adapter.Refuse("addresses", strings.Join(config.Addresses, ","), "%v", err)
		}
	}
	s.life.Go(s.keep)
	s.life.Go(s.orphans.Sweep)
	return s, nil
}

// TTL implements store.Store.
func (s *Store) TTL() time.Duration { return s.config.TTL }

// Confirmed implements store.Store.
func (s *Store) Confirmed() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.confirmed
}

// told says that whatever happened until a time is known.
func (s *Store) told(at time.Time) {
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

func (s *Store) shutDown() {
	s.life.Close()
	s.mu.Lock()
	ballots, sess := slices.Collect(maps.Keys(s.ballots)), s.current
	s.mu.Unlock()
	for _, b := range ballots { // before the lease ends, so that Err says why
		b.LoseWith(adapter.ErrClosed)
	}
	if sess != nil {
		sess.lease.End() // before another candidate can lead
	}
	ctx, cancel := context.WithTimeout(s.life.Background, closeLimit)
	defer cancel()
	if sess != nil {
		sess.end(adapter.ErrClosed)
		s.leaveSeats(ctx, ballots)
		if s.clearAway(ctx, sess) == nil {
			s.watches.settle(ctx) // queries that end by themselves leave nothing at the agent
		}
	}
	opened := time.NewTimer(closeLimit / 2)
	defer opened.Stop()
	select {
	case s.opening <- struct{}{}: // the one about to open a session has given up
	case <-opened.C:
	}
	s.clearDiscarded(ctx)
	s.life.Stop()
	s.life.Wait()
	s.watches.close()
	if s.lines != nil {
		s.dialer.closeAll()
		s.lines.close()
	}
}
