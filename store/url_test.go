package store_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func TestParseURL(t *testing.T) {
	type parts struct {
		scheme, user, password string
		hosts                  []string
		path                   string
	}
	for raw, want := range map[string]parts{
		"zookeeper://h":                       {scheme: "zookeeper", hosts: []string{"h"}},
		"zookeeper://h:2181":                  {scheme: "zookeeper", hosts: []string{"h:2181"}},
		"zookeeper://h:1,i:65535,j/a/b?ttl=1": {scheme: "zookeeper", hosts: []string{"h:1", "i:65535", "j"}, path: "a/b"},
		"ZooKeeper+TLS://H":                   {scheme: "zookeeper+tls", hosts: []string{"H"}},
		"etcd://10.0.0.1:2379,10.0.0.2/p":     {scheme: "etcd", hosts: []string{"10.0.0.1:2379", "10.0.0.2"}, path: "p"},
		"z://[::1]:2181,[2001:db8::1]":        {scheme: "z", hosts: []string{"[::1]:2181", "[2001:db8::1]"}},
		"z://[fe80::1%eth0]:2181":             {scheme: "z", hosts: []string{"[fe80::1%eth0]:2181"}},
		"z://":                                {scheme: "z"},
		"z:///":                               {scheme: "z"},
		"z:///a/b/":                           {scheme: "z", path: "a/b"},
		"z://h//a//":                          {scheme: "z", hosts: []string{"h"}, path: "a"},
		"z://h/a%20b%3F%23%25":                {scheme: "z", hosts: []string{"h"}, path: "a b?#%"},
		"z://h?":                              {scheme: "z", hosts: []string{"h"}},
		"z://h?a=b/c":                         {scheme: "z", hosts: []string{"h"}},
		"aA09+-.zZ://h":                       {scheme: "aa09+-.zz", hosts: []string{"h"}},
		"z://@h":                              {scheme: "z", hosts: []string{"h"}},
		"z://u@h":                             {scheme: "z", user: "u", hosts: []string{"h"}},
		"z://u:p@h":                           {scheme: "z", user: "u", password: "p", hosts: []string{"h"}},
		"z://u:@h":                            {scheme: "z", user: "u", hosts: []string{"h"}},
		"z://:p@h":                            {scheme: "z", password: "p", hosts: []string{"h"}},
		"z://u:p:q@h":                         {scheme: "z", user: "u", password: "p:q", hosts: []string{"h"}},
		"z://u:p@q@h":                         {scheme: "z", user: "u", password: "p@q", hosts: []string{"h"}},
		"z://u%3A%40%2F:p%2F%3F%23%25%40%20@h:1,i/p": {
			scheme: "z", user: "u:@/", password: "p/?#%@ ", hosts: []string{"h:1", "i"}, path: "p",
		},
		"z://u+v:p+q@h": {scheme: "z", user: "u+v", password: "p+q", hosts: []string{"h"}},
	} {
		u, err := store.ParseURL(raw)
		require.NoError(t, err, "%q", raw)
		require.Equal(t, want, parts{u.Scheme, u.User, u.Password, u.Hosts, u.Path}, "%q", raw)
	}
}

func TestParseURLRefuses(t *testing.T) {
	const (
		noScheme = `it does not begin with "scheme://"`
		notAHost = `it is not "host", "host:port" or "[IPv6]:port"`
		notAPort = "is not a port"
		noIPv6   = "not an IPv6 address"
	)
	for raw, want := range map[string]string{
		"":                   "invalid store URL: " + noScheme,
		"h:2181":             noScheme,
		"://h":               noScheme,
		"zookeeper:h":        noScheme,
		"zookeeper:/h":       noScheme,
		"/a://h":             noScheme,
		"a b://h":            noScheme,
		" z://h":             noScheme,
		"z:1://h":            noScheme,
		"z://h#a":            `invalid z URL: "#" has to be written %23`,
		"z://h/p#a":          `%23`,
		"z://h?a=#":          `%23`,
		"z://u:p#q@h":        `%23`,
		"z://u%:p@h":         "user or password has a wrong %-escape",
		"z://u:p%zz@h":       "user or password has a wrong %-escape",
		"z://h/%":            "the path has a wrong %-escape",
		"z://h/a%4":          "the path has a wrong %-escape",
		"z://h?%zz=1":        `the options after "?" are not of the form name=value&name=value`,
		"z://h?a=1;b=2":      `the options after "?" are not of the form name=value&name=value`,
		"z://h?ttl=1s&ttl=1": `option "ttl" is given 2 times`,
		"z://h\n":            "control character",
		"z://h/%0a":          "control character",
		"z://\xff":           "not valid UTF-8",
		"z://h/%ff":          "not valid UTF-8",
		"z://,":              "invalid z URL: host 1: " + notAHost,
		"z://h,":             "host 2: " + notAHost,
		"z://,h":             "host 1: " + notAHost,
		"z://h,,i":           "host 2: " + notAHost,
		"z://u@,":            "host 1: " + notAHost,
		"z://:2181":          notAHost,
		"z://h i":            notAHost,
		"z://h:1:2":          notAHost,
		"z://::1":            notAHost,
		"z://h%41":           notAHost,
		"z://h:":             notAPort,
		"z://h:0":            notAPort,
		"z://h:65536":        notAPort,
		"z://h:-1":           notAPort,
		"z://h:+1":           notAPort,
		"z://h:http":         notAPort,
		"z://[::1]2181":      notAPort,
		"z://ok:1,[::1]:x":   "host 2: what follows",
		"z://[::1":           noIPv6,
		"z://[]:1":           noIPv6,
		"z://[10.0.0.1]:1":   noIPv6,
		"z://u:p/q@h":        "behind the hosts",
		"z://u:p?q@h":        "behind the hosts",
		"z://h/a@b":          "behind the hosts",
		"z://h?a=b@c":        "behind the hosts",
	} {
		u, err := store.ParseURL(raw)
		require.ErrorIs(t, err, store.ErrInvalid, "%q", raw)
		require.ErrorContains(t, err, want, "%q", raw)
		require.Nil(t, u, "%q", raw)
	}
}

// TestParseURLRefusesStrayBrackets: a host that is neither "host", "host:port" nor "[IPv6]:port" is refused here, not
// later by a name server.
func TestParseURLRefusesStrayBrackets(t *testing.T) {
	for _, raw := range []string{"z://[]", "z://[h", "z://h]", "z://h:2181]", "z://[h]", "z://[::1]]", "z://[x:y]"} {
		u, err := store.ParseURL(raw)
		require.ErrorIs(t, err, store.ErrInvalid, "%q was taken: %v", raw, u)
	}
}

func TestURLString(t *testing.T) {
	for raw, want := range map[string]string{
		"ZK://h1:1,h2/a/b?ttl=10s": "zk://h1:1,h2/a/b",
		"zk://u:p@h/a":             "zk://h/a",
		"zk://u@[::1]:1":           "zk://[::1]:1/",
		"zk://":                    "zk:///",
	} {
		u, err := store.ParseURL(raw)
		require.NoError(t, err, "%q", raw)
		require.Equal(t, want, u.String(), "%q", raw)
	}
}

// TestURLStringIsOneLine: errors and logs show the URL, and an Error promises one line of text.
func TestURLStringIsOneLine(t *testing.T) {
	for _, raw := range []string{"z://h/a%0Alevel=INFO", "z://h/%1b%5b2J", "z://h\x00/", "z://h\x1b[2J/"} {
		if u, err := store.ParseURL(raw); err == nil {
			require.Negative(t, strings.IndexFunc(u.String(), unicode.IsControl), "%q: %q", raw, u.String())
		}
	}
}

// TestURLPathHasNoSlashAtEitherEnd: stores put it between slashes of their own.
func TestURLPathHasNoSlashAtEitherEnd(t *testing.T) {
	for _, raw := range []string{"z://h/a", "z://h/a/", "z://h//a//", "z://h/%2Fa", "z://h/a%2f", "z://h/%2F", "z://h//"} {
		u, err := store.ParseURL(raw)
		require.NoError(t, err, "%q", raw)
		require.Equal(t, strings.Trim(u.Path, "/"), u.Path, "%q", raw)
	}
}
