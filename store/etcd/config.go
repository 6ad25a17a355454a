package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/lifeline"
	"github.com/go-leadership/leadership/store"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Config are the settings of a store. The zero value of each field stands for its default.
type Config struct {
	// Endpoints are the cluster's client addresses, "host" or "host:port"; the default port is 2379. Required unless
	// Client is set.
	Endpoints []string
	// Prefix begins all keys. Default: "leadership". An election's value is at <prefix>/<election>, its ballots are
	// below <prefix>/<election>/_ballots/. A candidate's user needs permission to read and write the keys that begin
	// with <prefix>/, a follower's to read them.
	Prefix string

	// TTL is the TTL of the lease, in whole seconds. Default: 10 s. If the cluster grants another TTL, Cast returns an
	// error. The shortest TTL that a cluster grants is 1.5 of its election timeouts: 2 s by default.
	TTL time.Duration
	// Grace is the time reserved for the leader's work to stop before a rival can lead. Default: a third of the TTL.
	// See [store.CheckSession].
	Grace time.Duration

	// User and Password are a user of the cluster. Default: none.
	User, Password string
	// PasswordFunc returns the password, if it might change. The store calls it for each token of the cluster, and does not
	// keep the result. It must return when ctx ends. After an error the store tries again later, and ends nothing that
	// works. Default: none.
	PasswordFunc func(ctx context.Context) (string, error)
	// TLS turns on TLS. If TLS has no ServerName, the name of the endpoint is used.
	TLS *tls.Config
	// Dial is that of [store.Options].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Lifeline ends the session as soon as this process is dead: "self", or the path of a socket. Default: none, and the
	// session ends after its TTL. See docs/lifeline.md.
	Lifeline string

	// Client is a client to use instead of one of the store's own. The store never closes it. Endpoints, User, Password,
	// PasswordFunc, TLS, Dial and Lifeline can't be set with Client. The store ignores wrappers around its KV, Lease or
	// Watcher, such as those of etcd's package namespace: use Prefix instead.
	Client *clientv3.Client

	// Logger is that of [store.Options].
	Logger *slog.Logger
	// Renewed is that of [store.Options].
	Renewed func(latency time.Duration)

	dialer *adapter.Dialer // see adapter.Settings, as for secure
	secure func() (*lifeline.Secure, error)
}

// The longest lease, in whole seconds: the cluster's own limit, unless a time.Duration holds less.
const maxTTL = min(math.MaxInt64/time.Second, 9_000_000_000) * time.Second

// settings points to the fields that all stores have.
func (c *Config) settings() adapter.Settings {
	return adapter.Settings{
		TTL: &c.TTL, Grace: &c.Grace, Least: time.Second, Most: maxTTL, Unit: time.Second, Logger: &c.Logger, Renewed: &c.Renewed,
		Servers: &c.Endpoints, Field: "endpoints", Port: "2379", User: &c.User, Password: &c.Password, PasswordFunc: &c.PasswordFunc, TLS: &c.TLS, Dial: &c.Dial, Dialer: &c.dialer,
		Client: "client", Given: c.Client != nil, Lifeline: &c.Lifeline, Secure: &c.secure,
	}
}

// complete fills in the defaults. It returns an error that names the first field which can't be used.
func (c *Config) complete() error {
	c.Prefix = cmp.Or(c.Prefix, "leadership")
	if strings.HasSuffix(c.Prefix, "/") || strings.ContainsFunc(c.Prefix, func(r rune) bool { return r < ' ' }) {
		return adapter.Refuse("prefix", c.Prefix, `it ends in "/" or has a control character`)
	}
	return c.settings().Complete()
}

func init() {
	store.Register("etcd", openURL)
	store.Register("etcd+tls", openURL)
}

// openURL opens etcd://user:password@host1:2379,host2:2379/prefix?options, or etcd+tls://. The options are ttl,
// grace and lifeline, with TLS also cacert, cert, key and servername.
func openURL(_ context.Context, u *store.URL) (store.Store, error) {
	c := Config{Prefix: u.Path}
	if err := c.settings().Read(u); err != nil {
		return nil, err
	}
	return Open(c)
}

// Format implements fmt.Formatter: it prints the settings with any verb, and stars instead of secrets.
func (c Config) Format(f fmt.State, verb rune) {
	type config Config // without this method
	c.settings().Print(f, verb, (*config)(&c))
}
