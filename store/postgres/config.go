package postgres

import (
	"cmp"
	"context"
	"crypto/tls"
	_ "embed"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// Config are the settings of a store. The zero value of each field stands for its default.
//
// The store ignores the environment variables and files of PostgreSQL's own tools (PGHOST, PGPASSWORD, .pgpass and the
// others).
type Config struct {
	// Addresses are servers, "host" or "host:port"; the default port is 5432. Standbys are passed over. Required.
	Addresses []string
	// User is the role to connect as, and Password its password, if the server asks for one. User is required.
	User, Password string
	// PasswordFunc returns the password instead, if it may change. The store calls it for each connection, and never keeps what it
	// returns. It returns when ctx ends. Its error is that of an attempt, which is made again after a pause; nothing that
	// works ends by it. Default: none.
	PasswordFunc func(ctx context.Context) (string, error)
	// Database is the name of the database. Required.
	Database string
	// Schema is the schema with the tables, and with nothing else: small letters, digits and "_". Default:
	// "leadership".
	Schema string
	// Prefix is before the names of all elections, with a "/" between. Default: none.
	Prefix string

	// TTL is how long the session lives without renewal, from 1 s to 10 min. After a failover of the server no ballot
	// is cast for as long as the longest TTL of any session so far. Default: 10 s.
	TTL time.Duration
	// Grace is the time reserved for the leader's work to stop before a rival can lead. Default: a third of the TTL.
	// See [store.CheckSession].
	Grace time.Duration

	// TLS turns on TLS. If it has no ServerName, that of the server dialled is used.
	TLS *tls.Config
	// Dial is that of [store.Options].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Logger is that of [store.Options].
	Logger *slog.Logger
	// Renewed is that of [store.Options].
	Renewed func(latency time.Duration)

	dialer *adapter.Dialer // see adapter.Settings
}

const (
	leastTTL = time.Second
	mostTTL  = 10 * time.Minute
)

// settings points to the fields that all stores have.
func (c *Config) settings() adapter.Settings {
	return adapter.Settings{
		TTL: &c.TTL, Grace: &c.Grace, Least: leastTTL, Most: mostTTL, Unit: time.Millisecond, Logger: &c.Logger, Renewed: &c.Renewed,
		Servers: &c.Addresses, Field: "addresses", Port: "5432", User: &c.User, NoPassword: true, Password: &c.Password, PasswordFunc: &c.PasswordFunc,
		TLS: &c.TLS, Dial: &c.Dial, Dialer: &c.dialer,
		NoLifeline: "sessions in PostgreSQL are ended by peers, and a lifeline ends those of ZooKeeper, etcd and Consul",
	}
}

// schemas are names that are written without quotes.
var schemas = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`)

func checkSchema(name string) error {
	switch {
	case !schemas.MatchString(name):
		return adapter.Refuse("schema", name, `not a name of up to 40 small letters, digits and "_"`)
	case name == "public" || name == "information_schema" || strings.HasPrefix(name, "pg_"):
		return adapter.Refuse("schema", name, "it has to be a schema of the elections' own")
	}
	return nil
}

// complete fills in the defaults. It returns an error that names the first field which can't be used.
func (c *Config) complete() error {
	c.Schema = cmp.Or(c.Schema, "leadership")
	if strings.ContainsRune(c.Database+c.User+c.Password, 0) {
		return adapter.Refuse("user", "", "the user, the password or the database has a zero byte in it")
	}
	if err := c.settings().Complete(); err != nil {
		return err
	}
	switch {
	case c.Database == "":
		return adapter.Refuse("database", "", "there is none: it is the path of the URL")
	case c.User == "":
		return adapter.Refuse("user", "", "there is none")
	}
	if err := checkSchema(c.Schema); err != nil || c.Prefix == "" {
		return err
	}
	if err := store.CheckElection(c.Prefix); err != nil {
		return adapter.Refuse("prefix", c.Prefix, "%v", err)
	}
	return nil
}

func init() {
	store.Register("postgres", openURL)
	store.Register("postgres+tls", openURL)
}

// openURL opens postgres://user:password@host:5432,host:5432/database/prefix?options, or postgres+tls://. The options
// are ttl, grace, passwordenv, passwordfile and schema, and with TLS cacert, cert, key and servername.
func openURL(_ context.Context, u *store.URL) (store.Store, error) {
	c := Config{Schema: u.Option("schema", "")}
	c.Database, c.Prefix, _ = strings.Cut(u.Path, "/")
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

//go:embed schema.sql
var schemaSQL string

// Schema returns the statements that create what the store keeps in a schema of this name, which is "leadership" if the
// name is empty. The owner of the database runs them once if candidates may not. Running them again changes nothing.
func Schema(name string) (string, error) {
	name = cmp.Or(name, "leadership")
	if err := checkSchema(name); err != nil {
		return "", err
	}
	return strings.ReplaceAll(schemaSQL, "{schema}", name), nil
}
