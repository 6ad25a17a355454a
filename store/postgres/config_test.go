package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

const secret = "hUnter2"

// Wrong settings are refused before anything is sent, with an error that names the field and the value.
func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		field  string
		parts  []string
		change func(c *postgres.Config)
	}{
		{"addresses", nil, func(c *postgres.Config) { c.Addresses = nil }},
		{"addresses", nil, func(c *postgres.Config) { c.Addresses = []string{"user:" + secret + "@a:5432"} }},
		{"user", nil, func(c *postgres.Config) { c.User = "" }},
		{"user", nil, func(c *postgres.Config) { c.Password = secret + "\x00" }},
		{"user", nil, func(c *postgres.Config) { c.User = "x\x00" }},
		{"user", nil, func(c *postgres.Config) { c.Database = "x\x00" }},
		{"database", nil, func(c *postgres.Config) { c.Database = "" }},
		{"schema", []string{"Big"}, func(c *postgres.Config) { c.Schema = "Big" }},
		{"schema", nil, func(c *postgres.Config) { c.Schema = "1x" }},
		{"schema", nil, func(c *postgres.Config) { c.Schema = strings.Repeat("x", 41) }},
		{"schema", []string{"pg_x"}, func(c *postgres.Config) { c.Schema = "pg_x" }},
		{"schema", nil, func(c *postgres.Config) { c.Schema = `x"; DROP` }},
		{"schema", []string{"public", "own"}, func(c *postgres.Config) { c.Schema = "public" }},
		{"schema", nil, func(c *postgres.Config) { c.Schema = "information_schema" }},
		{"prefix", []string{"a//b"}, func(c *postgres.Config) { c.Prefix = "a//b" }},
		{"ttl", []string{"999ms", "1s"}, func(c *postgres.Config) { c.TTL = 999 * time.Millisecond }},
		{"ttl", []string{"10m0.001s", "10m0s"}, func(c *postgres.Config) { c.TTL = 10*time.Minute + time.Millisecond }},
		{"grace", []string{"2.5s", "5s"}, func(c *postgres.Config) { c.Grace = ttl / 2 }},
	} {
		t.Run(c.field, func(t *testing.T) {
			config := postgres.Config{Addresses: []string{"127.0.0.1:1"}, User: "ann", Database: "app", TTL: ttl}
			c.change(&config)
			st, err := postgres.Open(config)
			if err == nil {
				require.NoError(t, st.Close())
			}
			requireInvalid(t, err, c.field, c.parts...)
			require.NotContains(t, err.Error(), secret)
		})
	}
	for _, name := range []string{"no; DROP", "pg_x", "public"} {
		_, err := postgres.Schema(name)
		requireInvalid(t, err, "schema")
	}
}

// URLs with options that PostgreSQL's store does not have are refused, and a lifeline with the reason.
func TestURLIsChecked(t *testing.T) {
	t.Parallel()
	for url, part := range map[string]string{
		"postgres://ann@h/app?sslmode=disable":  "sslmode",
		"postgres://ann@h/app?lifeline=self":    "peers",
		"postgres://ann@h/":                     "database",
		"postgres://h/app":                      "user",
		"postgres://ann@h/app?cacert=/dev/null": "cacert",
		"postgres://ann@h/app?ttl=11m":          "10m",
	} {
		_, err := store.Open(soon(t), url, nil)
		require.ErrorContains(t, err, part, url)
	}
}

// A store and its settings show no password, with any verb, and no error of a connection does.
func TestPasswordIsNotShown(t *testing.T) {
	t.Parallel()
	config := postgres.Config{Addresses: []string{"127.0.0.1:1"}, User: "ann", Database: "app", Password: secret, TTL: ttl}
	st := open(t, config)
	for _, value := range []any{config, &config, st, []any{config}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			text := fmt.Sprintf(verb, value)
			require.NotContains(t, text, secret, verb)
			require.NotContains(t, text, fmt.Sprintf("%x", secret), verb)
		}
	}
	_, err := st.Cast(within(t, 2*time.Second), newElection(), "own")
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "postgres://127.0.0.1:1/app")
	require.NotContains(t, err.Error(), secret)
}

// Elections in two schemas, and under two prefixes, have nothing to do with each other.
func TestSchemasAndPrefixesAreApart(t *testing.T) {
	t.Parallel()
	election := newElection()
	for _, config := range []postgres.Config{{}, {Schema: "other"}, {Prefix: "some/where"}, {Schema: "other", Prefix: "some/where"}} {
		st := open(t, config)
		b := castFirst(t, st, election, "leader")
		acknowledge(t, b, "leader")
		require.Equal(t, []string{"leader"}, values(t, st, election))
		names, err := st.Elections(soon(t))
		require.NoError(t, err)
		require.Contains(t, names, election)
	}
}

// oldServer is a connection to a server that says that it is older than it is.
type oldServer struct{ net.Conn }

func (c oldServer) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	copy(p, bytes.Replace(p[:n], []byte("server_version\x001"), []byte("server_version\x000"), 1))
	return n, err
}

// A server that is too old is refused, before anything is created.
func TestVersion(t *testing.T) {
	t.Parallel()
	_, err := open(t, postgres.Config{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return oldServer{conn}, err
	}}).Cast(soon(t), newElection(), "own")
	requireInvalid(t, err, "addresses", "PostgreSQL 0", "14 or later")
}

// A URL names the database, the prefix behind it, and the schema.
func TestURL(t *testing.T) {
	t.Parallel()
	st, err := store.Open(soon(t), "postgres://"+testserver.PostgresUser+"@"+sharedServer(t).Addrs()[0]+"/postgres/some/where?schema=by_url&ttl=3s", nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	election := newElection()
	castFirst(t, st, election, "own")
	require.Equal(t, "some/where/"+election, sharedServer(t).Query(t, "SELECT election FROM by_url.entry"))
}
