// Demo shows the failovers of examples/failover/demo on PostgreSQL. It starts a server, or is given the URL of a
// database:
//
//	go run ./store/postgres/demo
//	go run ./store/postgres/demo -store 'postgres://postgres@127.0.0.1:5432/postgres?ttl=3s'
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/demo"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	_ "github.com/go-leadership/leadership/store/postgres"
)

const startTimeout = time.Minute

func main() {
	where := flag.String("store", "postgres", "`URL` of the store, or postgres to start a server")
	demo.Main(func(ctx context.Context, c demo.Config) error { return run(ctx, *where, c) })
}

// run shows the demo on the store of a URL, or on a server that it starts.
func run(ctx context.Context, where string, c demo.Config) (err error) {
	if strings.Contains(where, "://") {
		c.URL = where
		return demo.Run(ctx, c)
	}
	if where != "postgres" {
		return fmt.Errorf("there is no server for store %q; there is one for postgres", where)
	}
	fmt.Fprintln(c.Out, "starting", where)
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s, err := testserver.StartPostgres(starting, testserver.PostgresConfig{Fsync: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	c.URL = fmt.Sprintf("postgres://%s@%s/postgres?ttl=%v", testserver.PostgresUser, s.Addrs()[0], cmp.Or(c.TTL, 3*time.Second))
	return demo.Run(ctx, c)
}
