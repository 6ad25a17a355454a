// Package consul elects over HashiCorp Consul: ballots are keys that a session locks and takes with it when it ends,
// in the order of their CreateIndex, each watching the one before it by a blocking query.
//
//	import _ "github.com/go-leadership/leadership/store/consul"
//	st, err := store.Open(ctx, "consul://127.0.0.1:8500/prod?ttl=10s", nil)
//
// or [Open] with a [Config]. Options of the URL: ttl, grace, dc, namespace, partition; with the scheme
// consul+tls also cacert, cert, key and servername. The path of the URL is the prefix of all keys, its password the ACL
// token, which needs key:write on the prefix, session:write on the agent's node and, if the ttl is below 10 s,
// service:write on the service "leadership". To follow, key:read is enough.
//
// The acknowledged value is at <prefix>/<election>, as it is, for clients in any language.
//
// A crashed leader is replaced within twice its TTL and a second. With a TTL below 10 s it is replaced within the TTL
// and 1.5 s, the time in which the agent updates its servers; agents delay that for up to 3 s after a server has
// joined. A session ends early if the agent leaves, if its node or the store's check is deregistered, or if a client
// destroys the session. A ballot ends early if a client deletes it. A watch tells the holder, and the term ends. It also
// ends when the agent refuses connections. The successor might lead a moment before. If that matters, fence with the token.
// If a server falls silent, the other servers remove it, and its candidates are not told: with a TTL above 6 s connect
// candidates to client agents.
//
// The fencing token is the ballot's CreateIndex, which no removal of keys sets back, and a leader's revision the
// ModifyIndex of the acknowledgement.
//
// docs/backends.md compares the stores, and has the limits of each.
package consul

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/suspension"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// Store is one Consul session. It implements store.Store.
type Store struct {
	engine  *engine.Engine
	unwatch func() // of suspensions
}

// Open opens a store. It checks the settings; it does not wait for the service.
func Open(config Config) (*Store, error) {
	d, err := newDriver(config)
	if err != nil {
		return nil, err
	}
	config = d.config
	// The timer of the next renewal is as late after a suspension of the machine as that was long.
	unwatch, err := suspension.Watch(d.confirmNow)
	if err != nil { // the engine says so
		unwatch = func() {}
	}
	e := engine.New(d, engine.Settings{
		Name: d.life.Name, TTL: config.TTL, Pace: config.TTL / 4,
		DenialTimeout: config.TTL,
		RemovedReason: "its session has ended, or its key was deleted or taken by another program",
		RaiseTokens:   "write keys again and again",
		Logger:        config.Logger,
		Renewed:       config.Renewed,
		Lifeline:      d.lifeline,
	})
	return &Store{e, sync.OnceFunc(unwatch)}, nil
}

// Cast implements store.Store.
func (s *Store) Cast(ctx context.Context, election, value string) (store.Ballot, error) {
	return s.engine.Cast(ctx, election, value)
}

// Observe implements store.Store.
func (s *Store) Observe(ctx context.Context, election string, prev *store.Known) (store.Known, error) {
	return s.engine.Observe(ctx, election, prev)
}

// Ballots implements store.Store.
func (s *Store) Ballots(ctx context.Context, election string) ([]store.Standing, error) {
	return s.engine.Ballots(ctx, election)
}

// Elections implements store.Lister.
func (s *Store) Elections(ctx context.Context) ([]string, error) { return s.engine.Elections(ctx) }

// RequestResignation implements store.Store.
func (s *Store) RequestResignation(ctx context.Context, election string, token uint64) error {
	return s.engine.RequestResignation(ctx, election, token)
}

// Clear implements store.Store.
func (s *Store) Clear(ctx context.Context, election string) error {
	return s.engine.Clear(ctx, election)
}

// Worked implements store.Store.
func (s *Store) Worked() bool { return s.engine.Worked() }

// TTL implements store.Store.
func (s *Store) TTL() time.Duration { return s.engine.TTL() }

// Close implements store.Store.
func (s *Store) Close() error {
	s.unwatch()
	return s.engine.Close()
}

// String returns the name of the store in errors and logs: its URL without credentials.
func (s *Store) String() string { return s.engine.String() }

// Format implements fmt.Formatter: with every verb it prints what String returns.
func (s *Store) Format(f fmt.State, verb rune) { s.engine.Format(f, verb) }

var (
	_ engine.Driver  = (*driver)(nil)
	_ engine.Session = (*session)(nil)
)
