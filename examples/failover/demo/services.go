package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/testserver"
	_ "github.com/go-leadership/leadership/store/zookeeper"
)

// service is a server that the demo has started.
type service struct {
	url        string        // of the store
	crashBound time.Duration // documented for the store: from a leader's crash to its successor's election
	close      func() error
}

// services start a service of each kind.
var services = map[string]func(context.Context) (*service, error){"zookeeper": startZooKeeper}

// kinds lists what can be started.
func kinds() string { return strings.Join(slices.Sorted(maps.Keys(services)), ", ") }

// startTimeout is how long a server may take until it serves.
const startTimeout = time.Minute

func startZooKeeper(ctx context.Context) (*service, error) {
	const ttl, tick = 3 * time.Second, 500 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	z, err := testserver.StartZooKeeper(ctx, testserver.ZooKeeperConfig{TickTime: tick})
	if err != nil {
		return nil, err
	}
	return &service{
		url: "zookeeper://" + strings.Join(z.Addrs(), ",") + "/?ttl=" + ttl.String(),
		// The server rounds the end of a session up to a tick, and looks for it once a tick.
		crashBound: ttl + 2*tick,
		close:      z.Close,
	}, nil
}
