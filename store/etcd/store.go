// Package etcd is the store for etcd: ballots are keys on one lease, in the order of their creation revisions. It is
// tested with etcd 3.7.3. Releases without the fix of etcd's issue 15247 (pull request 16822) let a member that has
// been deposed revoke leases that live, which ends a session early. Endpoints must be members: etcd's grpc-proxy does
// not answer requests for the progress of watches, so the store opens its stream of watches anew again and again.
//
//	import _ "github.com/go-leadership/leadership/store/etcd"
//	st, err := store.Open(ctx, "etcd://10.0.0.1:2379,10.0.0.2:2379/prod?ttl=10s", nil)
//
// or [Open] with a [Config]. Options of the URL: ttl and grace; with the scheme etcd+tls also cacert, cert, key and
// servername. The path of the URL is the prefix of all keys, user and password are a user of the cluster.
//
// Candidates that use the client's own concurrency.Election, or etcdctl elect, with the name
// <prefix>/<election>/_ballots stand in the same queue. While one stands with the name <prefix>/<election>, no ballot is cast:
// it is in another queue. The acknowledged value is at <prefix>/<election>.
//
// A crashed leader is replaced within its TTL and a second, and within two TTLs and 4 s if the cluster's leader dies
// too: the cluster's next leader counts every lease's TTL anew. A lease ends early only if a client revokes the lease, and
// a term also if a client deletes the ballot. The leader notices with the next event from its endpoint, and the successor
// might lead a moment before. If all ballots up to a waiter's are deleted together, that waiter might be first for a moment.
// So might a waiter whose ballot is deleted before those ahead of it, while some 2,400 events wait for this client.
//
// The fencing token is the ballot's CreateRevision, and a leader's revision the ModRevision of the acknowledgement.
// Both go back if a cluster is restored from an old copy of its data.
//
// docs/backends.md compares the stores, and has the limits of each.
package etcd

import (
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store/engine"
)

// Store is one lease, taken at the first Cast. It implements store.Store.
type Store struct {
	*engine.Engine
	driver *driver
}

// Open opens a store. It checks the settings and begins to connect; it does not wait for the service.
func Open(config Config) (*Store, error) {
	d, err := newDriver(config)
	if err != nil {
		return nil, err
	}
	s := &Store{driver: d}
	s.Engine = engine.New(d, engine.Settings{
		Name: d.life.Name, TTL: d.config.TTL, Pace: d.renewal(),
		RemovedReason: "its key was deleted", Logger: d.config.Logger, Renewed: d.config.Renewed, Lifeline: d.lifeline,
		RaiseTokens: "restore the snapshot with etcdutl snapshot restore --bump-revision=N --mark-compacted",
	})
	d.begin()
	return s, nil
}

// newDriver returns a driver that has not begun to work.
func newDriver(config Config) (*driver, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	endpoints := config.Endpoints
	if config.Client != nil {
		endpoints = config.Client.Endpoints()
	}
	d := &driver{
		config:    config,
		layout:    layout{config.Prefix},
		life:      adapter.NewLifecycle("etcd", config.TLS != nil, strings.Join(endpoints, ",")+"/"+config.Prefix),
		endpoints: len(endpoints), client: config.Client,
		changed: make(chan struct{}), dialled: map[string]time.Time{},
		watches: watches{queued: make(chan struct{}, 1), stream: 1, byID: map[int64]*watch{}},
	}
	var err error
	d.lifeline, err = config.settings().OpenLifeline(d.life, "etcd", nil)
	return d, err
}

// renewal is how often the lease is renewed and the store confirmed.
func (d *driver) renewal() time.Duration { return d.config.TTL / 4 }
