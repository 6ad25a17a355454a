package etcd

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/hostport"
	"github.com/go-leadership/leadership/store"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Config are the settings of a store. The zero value of each field stands for its default.
type Config struct {
	// Endpoints are the cluster's client addresses, "host" or "host:port"; the port is 2379 if none is given.
	// Required unless Client is set.
	Endpoints []string
	// Prefix begins all keys; "leadership". An election's value is at <prefix>/<election>, its ballots are below
	// <prefix>/<election>/_ballots/. A user of the cluster needs the permission to read and write the keys that begin
	// with <prefix>/; a follower that to read them.
	Prefix string

	// TTL is that of the lease, in whole seconds; 10 s. It has to be one that the cluster grants unchanged, by default
	// 2 s or more (1.5 of its election timeouts). If it grants another one, Campaign returns an error.
	TTL time.Duration
	// Grace is the time reserved for the leader's work to stop before a rival can lead; a third of the TTL. Less than
	// half of it.
	Grace time.Duration

	// User and Password are a user of the cluster; none.
	User, Password string
	// TLS turns on TLS. If it has no ServerName, that of the endpoint dialled is used.
	TLS *tls.Config
	// Dial opens a connection to an endpoint, to go through a proxy say. TLS, if any, is spoken on top of it.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Client is a client to use instead of one of the store's own. It is never closed by the store, and Endpoints,
	// User, Password, TLS and Dial can't be set with it. Wrappers that were put around its KV, Lease or Watcher, such
	// as those of its package namespace, are not gone through: Prefix is there for that.
	Client *clientv3.Client

	// Logger receives trouble at level Warn, and what the client library logs at Debug; nothing is logged.
	Logger *slog.Logger
}

const defaultPort = "2379"

func (c Config) withDefaults() Config {
	c.Endpoints = hostport.WithPorts(c.Endpoints, defaultPort)
	if c.Prefix == "" {
		c.Prefix = "leadership"
	}
	if c.TTL == 0 {
		c.TTL = 10 * time.Second
	}
	if c.Grace == 0 {
		c.Grace = c.TTL / 3
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// maxTTL is the longest lease of a time.Duration in whole seconds. The cluster's own limit is 9,000,000,000 s.
const maxTTL = math.MaxInt64 / time.Second * time.Second

// check returns an error that names the first field which can't be used.
func (c Config) check() error {
	own := len(c.Endpoints) > 0 || c.User != "" || c.Password != "" || c.TLS != nil || c.Dial != nil
	switch {
	case c.Client == nil && len(c.Endpoints) == 0:
		return adapter.Refuse("endpoints", "", "there are none")
	case c.Client != nil && own:
		return adapter.Refuse("client", "", "endpoints, user, password, TLS and dial belong to a client of the store's own")
	case c.TTL < time.Second || c.TTL > min(maxTTL, 9_000_000_000*time.Second) || c.TTL%time.Second != 0:
		return adapter.Refuse("ttl", c.TTL.String(), "not a whole number of seconds from 1s to %v", min(maxTTL, 9_000_000_000*time.Second))
	case c.Grace < c.TTL/12 || c.Grace >= c.TTL/2:
		return adapter.Refuse("grace", c.Grace.String(), "not from a twelfth to below half of the ttl %v", c.TTL)
	case c.User == "" && c.Password != "":
		return adapter.Refuse("user", "", "there is a password and no user")
	case c.User != "" && c.Password == "":
		return adapter.Refuse("user", "", "there is a user and no password")
	case strings.HasSuffix(c.Prefix, "/") || strings.ContainsFunc(c.Prefix, func(r rune) bool { return r < ' ' }):
		return adapter.Refuse("prefix", c.Prefix, `it ends in "/" or has a control character`)
	}
	if reason := hostport.RefuseAny(c.Endpoints); reason != "" {
		return adapter.Refuse("endpoints", "", "%s", reason)
	}
	return nil
}

func init() {
	store.Register("etcd", openURL)
	store.Register("etcd+tls", openURL)
}

// openURL opens etcd://user:password@host1:2379,host2:2379/prefix?options, or etcd+tls://. The options are ttl and
// grace, with TLS also cacert, cert, key and servername.
func openURL(_ context.Context, u *store.URL) (store.Store, error) {
	c := Config{Endpoints: u.Hosts, Prefix: u.Path, User: u.User, Password: u.Password, TLS: u.TLS(), Dial: u.Dial, Logger: u.Logger}
	c.TTL, c.Grace = u.Session()
	if err := u.Check(); err != nil {
		return nil, err
	}
	return Open(c)
}

// Format implements fmt.Formatter: it prints the settings with any verb, and stars instead of the password, and of
// endpoints that Open would refuse: they might hold a whole URL with a password.
func (c Config) Format(f fmt.State, verb rune) {
	type config Config // without this method
	if c.Password != "" {
		c.Password = "***"
	}
	c.Endpoints = hostport.Hide(c.Endpoints)
	_, _ = fmt.Fprintf(f, fmt.FormatString(f, verb), config(c))
}
