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
	"sync"

	"github.com/go-leadership/leadership/internal/suspension"
	"github.com/go-leadership/leadership/store/engine"
)

// Store is one Consul session. It implements store.Store.
type Store struct {
	*engine.Engine
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

// Close implements store.Store.
func (s *Store) Close() error {
	s.unwatch()
	return s.Engine.Close()
}

var (
	_ engine.Driver  = (*driver)(nil)
	_ engine.Session = (*session)(nil)
)
