// Package httpstore is an example of a store: a driver for the service of package server, which is reached over HTTP. It
// uses the standard library and public packages of this module alone. docs/writing-a-store.md goes through it.
//
//	st, err := store.Open(ctx, "httpstore://127.0.0.1:8080/prod?ttl=10s", nil)
package httpstore

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// Config are the settings of a store. The zero value of each field stands for its default.
type Config struct {
	Address string        // of the server, "host:port"; required
	Prefix  string        // of the names of all elections. Default: none
	TTL     time.Duration // how long the session lives without renewal. Default: 10 s
	Grace   time.Duration // reserved before expiry for the leader's work to stop; a third of the TTL
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)
	Logger  *slog.Logger
}

func init() { store.Register("httpstore", openURL) }

func openURL(_ context.Context, u *store.URL) (store.Store, error) {
	c := Config{Prefix: u.Path, Dial: u.Dial, Logger: u.Logger}
	c.TTL, c.Grace = u.Session()
	if len(u.Hosts) == 1 {
		c.Address = u.Hosts[0]
	}
	if err := u.Check(); err != nil {
		return nil, err
	}
	return Open(c)
}

// Open opens a store. It checks the settings, and does not wait for the server.
func Open(c Config) (store.Store, error) {
	d, err := newDriver(c)
	if err != nil {
		return nil, err
	}
	return engine.New(d, engine.Settings{
		Name: "httpstore://" + c.Address + "/" + c.Prefix, TTL: d.TTL, Pace: d.TTL / 4,
		RemovedReason: "its entry was deleted", Logger: c.Logger,
	}), nil
}

func newDriver(c Config) (*driver, error) {
	if c.Address == "" {
		return nil, &store.FieldError{Field: "address", Reason: "exactly one is needed"}
	}
	if err := store.CheckSession(&c.TTL, &c.Grace, time.Second, 24*time.Hour, time.Millisecond); err != nil {
		return nil, err
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
	d := &driver{Config: c, id: rand.Text(), due: make(chan struct{}, 1), watches: map[*watch]struct{}{}}
	d.ctx, d.stop = context.WithCancel(context.Background())
	d.requests, d.renewals = newClient(c), newClient(c)
	d.tasks.Go(d.follow)
	d.tasks.Go(d.follow)
	return d, nil
}
