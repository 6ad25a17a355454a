package zookeeper

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/lifeline"
	"github.com/go-leadership/leadership/store"
	"github.com/go-zookeeper/zk"
)

// Config are the settings of a store. The zero value of each field stands for its default.
type Config struct {
	// Servers are the ensemble's client addresses, "host" or "host:port"; the default port is 2181. Required. Names
	// are looked up again at each connection.
	Servers []string
	// Chroot is the path of all nodes of the store, as in a ZooKeeper connection string. Default: none. Chroot
	// and Root have at most 1024 bytes each.
	Chroot string
	// Root is the path below the chroot that holds the elections. Default: "/_zkelection".
	Root string

	// TTL is the session's timeout. Default: 10 s. The ensemble has to grant the TTL unchanged; by default 2 to
	// 20 of its ticks. If the ensemble grants another TTL, Cast returns an error. The full grace needs at least 3
	// ticks.
	TTL time.Duration
	// Grace is the time reserved for the leader's work to stop before a rival can lead. Default: a third of the TTL.
	// See [store.CheckSession].
	Grace time.Duration

	// User and Password are a digest identity to authenticate with. Default: none. Package fmt prints stars for the
	// password, unless the Config is in an unexported field: there package fmt calls no methods.
	User, Password string
	// PasswordFunc returns the password instead, if it may change. The store calls it for each connection, and never keeps what it
	// returns. It returns when ctx ends. Its error is that of an attempt, which is made again after a pause; nothing that
	// works ends by it. Default: none.
	PasswordFunc func(ctx context.Context) (string, error)
	// ACL says who may use the nodes that the store creates. Default: ACLCreator with User, ACLWorld without.
	ACL ACL
	// TLS turns on TLS. Default of its ServerName: the name of the server that is dialled.
	TLS *tls.Config
	// Dial is that of [store.Options].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Lifeline ends the session as soon as this process is dead: "self", or the path of a socket. Default: none, and the
	// session ends after its TTL. See docs/lifeline.md.
	Lifeline string

	// Logger is that of [store.Options].
	Logger *slog.Logger
	// Renewed is that of [store.Options].
	Renewed func(latency time.Duration)

	dialer *adapter.Dialer // see adapter.Settings, as for secure
	secure func() (*lifeline.Secure, error)
}

// ACL says who may use the nodes that a store creates.
type ACL string

// The choices for Config.ACL, and for the option acl of a URL.
const (
	ACLCreator ACL = "creator" // only the identity that created the nodes
	ACLRead    ACL = "read"    // that identity; every client may read
	ACLWorld   ACL = "world"   // every client
)

var acls = map[ACL][]zk.ACL{
	ACLCreator: zk.AuthACL(zk.PermAll),
	ACLRead:    append(zk.AuthACL(zk.PermAll), zk.WorldACL(zk.PermRead)...),
	ACLWorld:   zk.WorldACL(zk.PermAll),
}

// settings points to the fields that all stores have.
func (c *Config) settings() adapter.Settings {
	return adapter.Settings{
		TTL: &c.TTL, Grace: &c.Grace, Least: time.Millisecond, Most: math.MaxInt32 * time.Millisecond, Unit: time.Millisecond,
		Logger: &c.Logger, Renewed: &c.Renewed, Servers: &c.Servers, Field: "servers", Port: strconv.Itoa(zk.DefaultPort), User: &c.User,
		Password: &c.Password, PasswordFunc: &c.PasswordFunc, TLS: &c.TLS, Dial: &c.Dial, Dialer: &c.dialer, Lifeline: &c.Lifeline, Secure: &c.secure,
	}
}

// complete fills in the defaults. The error names the first field that can't be used.
func (c *Config) complete() error {
	c.Root = cmp.Or(c.Root, "/_zkelection")
	if c.ACL == "" {
		c.ACL = ACLWorld
		if c.User != "" {
			c.ACL = ACLCreator
		}
	}
	if strings.Contains(c.User, ":") {
		return adapter.Refuse("user", "", `it has a ":" in it; the password is another setting`)
	}
	if err := c.settings().Complete(); err != nil {
		return err
	}
	switch {
	case acls[c.ACL] == nil:
		return adapter.Refuse("acl", string(c.ACL), "not %s, %s or %s", ACLCreator, ACLRead, ACLWorld)
	case c.ACL != ACLWorld && c.User == "":
		return adapter.Refuse("acl", string(c.ACL), "it needs a user to authenticate as")
	}
	return errors.Join(checkPath("chroot", c.Chroot), checkPath("root", c.Root))
}

// maxPath is how many bytes a setting may put into a path. A server closes the connection on a request of over 1 MiB,
// paths included.
const maxPath = 1024

// checkPath returns an error if a path is too long, not clean, or has characters that ZooKeeper allows in none.
func checkPath(field, p string) error {
	switch {
	case p == "":
		return nil
	case len(p) > maxPath:
		return adapter.Refuse(field, "", "it has %d bytes, more than %d", len(p), maxPath)
	case p[0] != '/' || p == "/" || path.Clean(p) != p || strings.ContainsFunc(p, control):
		return adapter.Refuse(field, p, `not a clean absolute path such as "/elections"`)
	}
	return nil
}

func control(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 || r > 0xd7ff }

func init() {
	store.Register("zookeeper", openURL)
	store.Register("zookeeper+tls", openURL)
}

// openURL opens zookeeper://user:password@host1:2181,host2:2181/chroot?options, or zookeeper+tls://. The options are
// ttl, grace, lifeline, root, acl, and with TLS cacert, cert and key (files) and servername.
func openURL(_ context.Context, u *store.URL) (store.Store, error) {
	c := Config{Root: u.Option("root", ""), ACL: ACL(u.Option("acl", ""))}
	if u.Path != "" {
		c.Chroot = "/" + u.Path
	}
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
