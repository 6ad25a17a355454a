package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/testserver"
	_ "github.com/go-leadership/leadership/store/all"
)

// service is a server that the demo has started.
type service struct {
	url        string        // of the store
	crashBound time.Duration // documented for the store: from a leader's crash to its successor's election
	close      func() error
}

// services start a service of each kind. The processes differ in nothing but the URL.
var services = map[string]func(context.Context) (*service, error){
	"consul": startConsul, "etcd": startEtcd, "zookeeper": startZooKeeper,
}

// kinds lists what can be started.
func kinds() string { return strings.Join(slices.Sorted(maps.Keys(services)), ", ") }

const (
	// startTimeout is how long a server may take until it serves.
	startTimeout = time.Minute
	ttl          = 3 * time.Second
)

// address is the store's URL on a server of the kind.
func address(kind string, hosts []string) string {
	return kind + "://" + strings.Join(hosts, ",") + "/?ttl=" + ttl.String()
}

func startZooKeeper(ctx context.Context) (*service, error) {
	const tick = 500 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	z, err := testserver.StartZooKeeper(ctx, testserver.ZooKeeperConfig{TickTime: tick})
	if err != nil {
		return nil, err
	}
	// The server rounds the end of a session up to a tick, and looks for it once a tick.
	return &service{url: address("zookeeper", z.Addrs()), crashBound: ttl + 2*tick, close: z.Close}, nil
}

func startEtcd(ctx context.Context) (*service, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	e, err := testserver.StartEtcd(ctx, testserver.EtcdConfig{})
	if err != nil {
		return nil, err
	}
	// The server looks for leases that have ended twice a second.
	return &service{url: address("etcd", e.Addrs()), crashBound: ttl + time.Second, close: e.Close}, nil
}

func startConsul(ctx context.Context) (*service, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c, err := testserver.StartConsul(ctx, testserver.ConsulConfig{})
	if err != nil {
		return nil, err
	}
	// With a TTL below 10 s a check of the agent's ends the session, a moment after the TTL.
	return &service{url: address("consul", c.Addrs()), crashBound: ttl + time.Second, close: c.Close}, nil
}
