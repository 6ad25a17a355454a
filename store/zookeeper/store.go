// Package zookeeper elects over Apache ZooKeeper: the full recipe of sequential ballots, each watching the one before
// it, with an acknowledgement by the leader. See "ZooKeeper Recipes and Solutions", Leader Election, in ZooKeeper's
// documentation, and the Ruby zk gem's ZK::Election, whose layout is the default, so that candidates of both stand in
// the same election.
//
//	import _ "github.com/go-leadership/leadership/store/zookeeper"
//	st, err := store.Open(ctx, "zookeeper://10.0.0.1:2181,10.0.0.2:2181/?ttl=10s", nil)
//
// or [Open] with a [Config]. Options of the URL: ttl, grace, root, ballot, ack, acl; with the scheme zookeeper+tls
// also cacert, cert, key and servername. The path of the URL is the chroot, user and password a digest identity.
//
// A crashed leader is replaced within its TTL and two ticks of the servers. A session ends early only if an operator or
// a program with its id and password closes it. A ballot ends early if it is deleted. The holder notices with the next
// event from its server, when it is connected again, or when its lease ends. Its successor might lead before that.
//
// The client library can't take a watch back. A stopped follower leaves a watch at the server, on the node of the
// acknowledgement, and a ballot that was withdrawn while it waited leaves one on the ballot ahead of it. Each stays
// until its node changes or the session ends. There is one at most per node and session.
//
// The fencing token is the ballot's czxid, which no removal of nodes sets back, and a leader's revision the mzxid of
// the acknowledgement.
//
// docs/backends.md compares the stores, and has the limits of each.
package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/looks"
	"github.com/go-leadership/leadership/internal/polls"
	"github.com/go-leadership/leadership/store"
	"github.com/go-zookeeper/zk"
)

// Store is one ZooKeeper session, made by [Open]. It implements store.Store.
//
// Its goroutines are keep, which confirms the session; authenticate, until that is done; the orphans' Sweep, which
// removes what was left behind; one for each ballot, and one for each request under way. Close waits for all of them.
type Store struct {
	config Config        // but for its password
	secret func() string // the password, where neither package fmt nor a debugger's dump of the store comes upon it
	layout layout
	acl    []zk.ACL
	conn   *zk.Conn
	events <-chan zk.Event // of an own connection: closed when the client library has ended

	life  *adapter.Life
	hosts hosts
	last  atomic.Uint64 // zxid: see wire

	closing  sync.Once
	closeErr error // of the first Close

	watches watches
	looks   looks.Turns
	polls   polls.Set
	orphans *adapter.Orphans[orphan]
	nonces  *nonces

	mu            sync.Mutex
	wire          *wire         // guarded by mu, as are all below
	current       *session      // nil before the first and between two
	changed       chan struct{} // closed and replaced at every connection and when a session ends
	epoch         uint64        // counts connections
	abandoned     int64         // the id of a session that the next handshake must end; 0 if there is none
	confirmed     time.Time
	authenticated bool
	refused       error         // why no session will do
	trouble       error         // why there is no connection, if there is none
	worked        bool          // a server has answered a handshake
	ready         time.Time     // when that of the present connection was answered; zero if it is not
	trip          time.Duration // how long that handshake, or the one before, took
	patience      time.Duration // how long the present connection may leave a confirmation without an answer
	unanswered    time.Time     // since when all handshakes have had no answer; zero if the last one had
	ballots       map[*ballot]struct{}
}

// Open opens a store. It checks the settings and begins to connect; it does not wait for the service.
func Open(config Config) (*Store, error) {
	config = config.withDefaults()
	if err := config.check(); err != nil {
		return nil, err
	}
	password := config.Password
	config.Password = ""
	s := &Store{
		config:  config,
		secret:  func() string { return password },
		layout:  layout{config.Chroot + config.Root, config.BallotPrefix, config.AckName},
		life:    adapter.NewLife("zookeeper", config.TLS != nil, strings.Join(config.Servers, ",")+config.Chroot),
		acl:     config.ACL.list(),
		nonces:  newNonces(),
		changed: make(chan struct{}),
		ballots: map[*ballot]struct{}{},
	}
	s.orphans = adapter.NewOrphans(s.life, 32, s.remove, s.abandonFor)
	if err := s.connect(); err != nil {
		s.life.Stop()
		return nil, err
	}
	s.authenticated = config.User == ""
	if !s.authenticated {
		s.life.Go(s.authenticate)
	}
	s.life.Go(s.keep)
	s.life.Go(s.orphans.Sweep)
	return s, nil
}

func (s *Store) connect() error {
	if s.config.Conn != nil {
		s.conn = s.config.Conn
		s.life.Name = "zookeeper://" + s.conn.Server()
		return nil
	}
	var err error
	s.conn, s.events, err = zk.Connect(s.config.Servers, s.config.TTL,
		zk.WithHostProvider(&s.hosts),
		zk.WithDialer(s.dial),
		zk.WithEventCallback(s.watches.event),
		zk.WithLogger(logger{s.config.Logger}),
	)
	if err != nil {
		return adapter.Refuse("servers", strings.Join(s.config.Servers, ","), "%v", err)
	}
	return nil
}

// logger hands the client library's messages on. They hold addresses and session ids, no credentials.
type logger struct{ to *slog.Logger }

func (l logger) Printf(format string, args ...any) { l.to.Debug(fmt.Sprintf(format, args...)) }

// authenticate adds the digest identity to the connection; the library repeats that at each later connection. No
// request is sent before it is done.
func (s *Store) authenticate() {
	for s.life.Background.Err() == nil {
		err := s.conn.AddAuth("digest", []byte(s.config.User+":"+s.secret()))
		if errors.Is(err, zk.ErrAuthFailed) {
			s.refuse(fmt.Errorf("%w: the server refuses the identity of user %q", store.ErrDenied, s.config.User))
			return
		}
		if err == nil {
			s.set(func() { s.authenticated = true })
			return
		}
		adapter.Pause(s.life.Background)
	}
}

// pause waits before a request is sent again: for a connection, and not long.
func (s *Store) pause(ctx context.Context) {
	_, changed := s.connection()
	timer := time.NewTimer(50 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// set changes the store's state and wakes those who wait for a change.
func (s *Store) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Store) refuse(err error) { s.set(func() { s.refused = err }) }

// TTL implements store.Store.
func (s *Store) TTL() time.Duration { return s.config.TTL }

// Confirmed implements store.Store.
func (s *Store) Confirmed() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.confirmed
}

// closeLimit bounds what Close does on a connection that goes on.
const closeLimit = 3 * time.Second

// Close implements store.Store. With its own connection it ends the session, and the nodes go with it. On a connection
// of the caller's it removes the store's nodes, for some seconds at most, and returns an error if some are left;
// requests to which that connection has no answer by then end with it.
func (s *Store) Close() error {
	s.closing.Do(func() { s.closeErr = s.shutDown() })
	return s.closeErr
}

func (s *Store) shutDown() error {
	// A call or a ballot's goroutine that sees the end of the calls gets mu, and gives a ballot back, only after all
	// ballots are lost and the lease has ended: no other candidate can lead before that.
	s.mu.Lock()
	s.life.Close() // first, so that no campaign wins any more
	for b := range s.ballots {
		b.LoseWith(adapter.ErrClosed) // who sees the lease end asks why
	}
	if s.current != nil {
		s.current.lease.End()
	}
	s.mu.Unlock()
	var err error
	if s.config.Conn != nil {
		err = s.cleanUp()
	}
	s.hosts.quit()
	s.life.Stop()
	s.set(func() { s.end(adapter.ErrClosed) })
	if s.config.Conn != nil {
		return errors.Join(err, s.awaitTasks())
	}
	s.conn.Close()
	s.cut(store.ErrClosed) // a handshake under way
	for range s.events {
	} // until the library has ended
	s.life.Wait()
	return nil
}

// cleanUp waits until all ballots have been removed from a connection that goes on: each becomes an orphan when its
// goroutine sees that the store is being closed, and so does each creation that is under way.
func (s *Store) cleanUp() error {
	timeout := time.NewTimer(closeLimit)
	defer timeout.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		s.mu.Lock()
		left, refused := len(s.ballots), s.refused
		s.mu.Unlock()
		if left += s.orphans.Left(); left == 0 || refused != nil { // the session of a closed connection is over
			return nil
		}
		select {
		case <-tick.C:
		case <-timeout.C:
			return s.life.Fail("close", "", fmt.Errorf("%w: %d ballots stand until the session of the caller's connection ends",
				store.ErrUnavailable, left))
		}
	}
}

// awaitTasks waits for the store's goroutines, but not for requests that a connection of the caller's does not answer.
func (s *Store) awaitTasks() error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.life.Wait()
	}()
	timeout := time.NewTimer(time.Second)
	defer timeout.Stop()
	select {
	case <-ended:
		return nil
	case <-timeout.C:
		return s.life.Fail("close", "", fmt.Errorf("%w: the caller's connection has not answered all requests", store.ErrUnavailable))
	}
}
