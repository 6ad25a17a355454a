package consul

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/lifeline"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/hashicorp/consul/api"
)

// Config are the settings of a store. The zero value of each field stands for its default.
//
// The store ignores the environment variables of Consul's own tools (CONSUL_HTTP_ADDR, CONSUL_HTTP_TOKEN and the
// others).
type Config struct {
	// Addresses are agents, "host" or "host:port"; the default port is 8500, with TLS 8501. If one does not answer, the
	// next is tried. Required unless Client is set. Only one is allowed if TTL is below 10 s, since the check that it
	// needs belongs to one agent.
	Addresses []string
	// Token is the ACL token to use. Default: the agent's own default token.
	Token string
	// TokenFunc returns the token instead, if it may change. The store calls it for each request. It returns when ctx
	// ends: after a twelfth of the TTL, once it has returned a token. While it fails, requests have the last token. Before
	// there is one, its error is that of an attempt, which is made again after a pause. Default: none.
	TokenFunc func(ctx context.Context) (string, error)
	// Prefix is the key above all keys of the store, without "/" at either end. Its characters are those that every version of
	// Consul takes: a-z, A-Z, 0-9 and ,_./-?&= . Default: "leadership".
	Prefix string
	// Datacenter is the datacenter to use. Default: the agent's own. While the agent knows none of that name, errors match
	// store.ErrUnavailable. A session belongs to a node of its datacenter. So
	// in another datacenter than the agent's a program can follow, and can't stand.
	Datacenter string
	// Namespace and Partition are those of Consul Enterprise. Default: the token's own.
	Namespace, Partition string

	// TTL is the session's timeout, from 1 s to 24 h. Default: 10 s. Below 10 s, the least that Consul accepts for a
	// session, the store binds the session to a TTL check. The check belongs to a service that the store registers at
	// its agent.
	TTL time.Duration
	// Grace is the time reserved for the leader's work to stop before a rival can lead. Default: a third of the TTL.
	// See [store.CheckSession].
	Grace time.Duration

	// TLS turns on TLS. If it has no ServerName, that of the agent dialled is used.
	TLS *tls.Config
	// Dial is that of [store.Options].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Lifeline ends the session as soon as this process is dead: "self", or the path of a socket. Default: none, and the
	// session ends after its TTL. See docs/lifeline.md.
	Lifeline string

	// Client is a client to use instead of one of the store's own. The store never closes it. Addresses, Token,
	// TokenFunc, TLS, Dial and Lifeline can't be set with it. Its transport has to let at least 100 requests run at once.
	Client *api.Client

	// Logger is that of [store.Options].
	Logger *slog.Logger
	// Renewed is that of [store.Options].
	Renewed func(latency time.Duration)

	dialer *adapter.Dialer // see adapter.Settings, as for secure
	secure func() (*lifeline.Secure, error)
}

// What Consul accepts.
const (
	leastTTL        = time.Second
	leastSessionTTL = 10 * time.Second // of a session without a check
	mostTTL         = 24 * time.Hour
)

// checked reports whether the session needs a check to end in time.
func (c Config) checked() bool { return c.TTL < leastSessionTTL }

// settings points to the fields that all stores have.
func (c *Config) settings() adapter.Settings {
	port := "8500"
	if c.TLS != nil {
		port = "8501"
	}
	return adapter.Settings{
		TTL: &c.TTL, Grace: &c.Grace, Least: leastTTL, Most: mostTTL, Unit: time.Millisecond, Logger: &c.Logger, Renewed: &c.Renewed,
		Servers: &c.Addresses, Field: "addresses", Port: port, Password: &c.Token, PasswordFunc: &c.TokenFunc, TLS: &c.TLS, Dial: &c.Dial, Dialer: &c.dialer,
		Client: "client", Given: c.Client != nil, Lifeline: &c.Lifeline, Secure: &c.secure,
	}
}

// complete fills in the defaults. It returns an error that names the first field which can't be used.
func (c *Config) complete() error {
	c.Prefix = cmp.Or(c.Prefix, "leadership")
	if strings.ContainsAny(c.Token, "\r\n") {
		return adapter.Refuse("token", "", "it has a line break in it")
	}
	if err := c.settings().Complete(); err != nil {
		return err
	}
	if c.checked() && len(c.Addresses) > 1 {
		return adapter.Refuse("addresses", "",
			"with the ttl %v, below %v, there can be one alone: the check that ends the session lives there", c.TTL, leastSessionTTL)
	}
	return c.checkPrefix()
}

func (c Config) checkPrefix() error {
	if !agent.Plain(c.Prefix) {
		return adapter.Refuse("prefix", c.Prefix, "agents refuse other characters than a-z, A-Z, 0-9 and ,_./-?&=")
	}
	for part := range strings.SplitSeq(c.Prefix, "/") {
		if part == "" || part == "." || part == ".." {
			return adapter.Refuse("prefix", c.Prefix, `not a path such as "leadership" or "prod/elections", without "/" at its ends`)
		}
	}
	return nil
}

func init() {
	store.Register("consul", openURL)
	store.Register("consul+tls", openURL)
}

// openURL opens consul://:token@host:8500/prefix?options, or consul+tls://. The options are ttl, grace, lifeline, dc,
// namespace and partition, and with TLS cacert, cert, key and servername.
func openURL(_ context.Context, u *store.URL) (store.Store, error) {
	c := Config{
		Prefix: u.Path, Datacenter: u.Option("dc", ""), Namespace: u.Option("namespace", ""), Partition: u.Option("partition", ""),
	}
	u.Refuse("lockdelay", "it is no option any more. So that no server which falls silent ends a session before the lease, "+
		"connect to client agents, set cleanup_dead_servers=false, or take a ttl of at most 6s")
	if err := c.settings().Read(u); err != nil {
		return nil, err
	}
	if u.User != "" {
		return nil, adapter.Refuse("user", "", "Consul knows tokens alone: write consul://:token@host, or use the option passwordfile")
	}
	return Open(c)
}

// Format implements fmt.Formatter: it prints the settings with any verb, and stars instead of secrets.
func (c Config) Format(f fmt.State, verb rune) {
	type config Config // without this method
	c.settings().Print(f, verb, (*config)(&c))
}
