// Server shows the failovers of the demo on a real server: see the parent directory. It starts the server, or is given
// the URL of one that runs.
//
//	go run ./examples/failover/demo/server -store etcd
//	go run ./examples/failover/demo/server -store 'etcd://127.0.0.1:2379/?ttl=3s'
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/demo"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	_ "github.com/go-leadership/leadership/store/all"
)

const (
	ttl          = 3 * time.Second
	tick         = 500 * time.Millisecond // of ZooKeeper
	startTimeout = time.Minute
)

// server is one that has been started.
type server interface {
	Addrs() []string
	Close() error
}

// servers start a server of each kind.
var servers = map[string]func(context.Context) (server, error){
	"consul": func(ctx context.Context) (server, error) {
		return testserver.StartConsul(ctx, testserver.ConsulConfig{})
	},
	"etcd": func(ctx context.Context) (server, error) {
		return testserver.StartEtcd(ctx, testserver.EtcdConfig{})
	},
	"zookeeper": func(ctx context.Context) (server, error) {
		return testserver.StartZooKeeper(ctx, testserver.ZooKeeperConfig{
			TickTime: tick, Extra: map[string]string{"maxSessionTimeout": "60000"}, // for any TTL
		})
	},
}

// kinds lists what can be started.
func kinds() string { return strings.Join(slices.Sorted(maps.Keys(servers)), ", ") }

func main() {
	where := flag.String("store", "", "`kind` of server to start, "+kinds()+", or the URL of a store")
	demo.Main(func(ctx context.Context, c demo.Config) error { return run(ctx, *where, c) })
}

// run shows the demo on the store of a URL, or on a server of a kind.
func run(ctx context.Context, where string, c demo.Config) (err error) {
	if strings.Contains(where, "://") {
		c.URL = where
		return demo.Run(ctx, c)
	}
	start, ok := servers[where]
	if !ok {
		return fmt.Errorf("there is no server for store %q; there is one for %s", where, kinds())
	}
	fmt.Fprintln(c.Out, "starting", where)
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s, err := start(starting)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	ttl := cmp.Or(c.TTL, ttl)
	c.URL = fmt.Sprintf("%s://%s/?ttl=%v", where, strings.Join(s.Addrs(), ","), ttl)
	if where == "zookeeper" {
		c.Crash = ttl + 2*tick // the server rounds the end of a session up to a tick, and looks for it once a tick
	}
	return demo.Run(ctx, c)
}
