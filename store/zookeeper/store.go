// Package zookeeper elects over Apache ZooKeeper: the full recipe of sequential ballots, each watching the one before
// it, with an acknowledgement by the leader. See "ZooKeeper Recipes and Solutions", Leader Election, in ZooKeeper's
// documentation, and the Ruby zk gem's ZK::Election, whose layout this is, so that candidates of both stand in the same
// election.
//
//	import _ "github.com/go-leadership/leadership/store/zookeeper"
//	st, err := store.Open(ctx, "zookeeper://10.0.0.1:2181,10.0.0.2:2181/?ttl=10s", nil)
//
// or [Open] with a [Config]. Options of the URL: ttl, grace, root, acl; with the scheme zookeeper+tls also cacert, cert, key
// and servername. The path of the URL is the chroot, user and password a digest identity.
//
// A crashed leader is replaced within its TTL and two ticks of the servers. A session ends early only if an operator or
// a program with its id and password closes it. A ballot ends early if its node is deleted. The holder notices with the next
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
	"github.com/go-leadership/leadership/store/engine"
)

// Store is one ZooKeeper session, made by [Open]. It implements store.Store.
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
	return &Store{driver: d, Engine: engine.New(d, engine.Settings{
		Name:          d.lifecycle.Name,
		TTL:           d.config.TTL,
		Pace:          d.config.TTL / 6,
		RemovedReason: "its node was deleted",
		RaiseTokens:   "restart the leader of the ensemble, since each election of a leader raises zxids by 4294967296; write to a single server",
		Logger:        d.config.Logger,
		Renewed:       d.config.Renewed,
		Lifeline:      d.lifeline,
	})}, nil
}
