package store_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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

func parse(t *testing.T, raw string) *store.URL {
	t.Helper()
	u, err := store.ParseURL(raw)
	require.NoError(t, err, "%q", raw)
	return u
}

func TestURLOption(t *testing.T) {
	u := parse(t, "z://h?a=b&escaped=%26+%3d&q=x=y")
	for name, want := range map[string]string{
		"a": "b", "escaped": "& =", "q": "x=y", "absent": "default",
	} {
		require.Equal(t, want, u.Option(name, "default"), name)
	}
	require.NoError(t, u.Check())
}

// An option that is given and empty is no default: it is refused, by name.
func TestURLCheckNamesEmptyOptions(t *testing.T) {
	u := parse(t, "z://h?acl=&flag&ttl=1s")
	for _, name := range []string{"acl", "flag", "ttl"} {
		u.Option(name, "default")
	}
	err := u.Check()
	require.ErrorIs(t, err, store.ErrInvalid)
	require.ErrorContains(t, err, "invalid acl: the option is given and empty")
	require.ErrorContains(t, err, "invalid flag: the option is given and empty")
	require.NotContains(t, err.Error(), "ttl")
}

func TestURLDuration(t *testing.T) {
	u := parse(t, "z://h?ttl=10s&grace=1m30s&zero=0&negative=-1s")
	require.Equal(t, 10*time.Second, u.Duration("ttl", time.Hour))
	require.Equal(t, 90*time.Second, u.Duration("grace", time.Hour))
	require.Equal(t, time.Duration(0), u.Duration("zero", time.Hour), "given is given: the adapter refuses it")
	require.Equal(t, -time.Second, u.Duration("negative", time.Hour))
	require.Equal(t, time.Hour, u.Duration("absent", time.Hour))
	require.NoError(t, u.Check())
}

func TestURLCheckNamesWrongDurations(t *testing.T) {
	u := parse(t, "z://h?a=10&b=&c=ten+seconds&d=5s")
	for _, name := range []string{"a", "b", "c", "d"} {
		u.Duration(name, 0)
	}
	err := u.Check()
	require.ErrorIs(t, err, store.ErrInvalid)
	var field *store.FieldError
	require.ErrorAs(t, err, &field)
	require.ErrorContains(t, err, `invalid a "10": not a duration such as "10s"`)
	require.ErrorContains(t, err, `invalid b: not a duration such as "10s"`)
	require.ErrorContains(t, err, `invalid c "ten seconds": not a duration such as "10s"`)
	require.NotContains(t, err.Error(), "invalid d")
}

// TestURLCheckShortensValues: a FieldError's Value is "what was given, shortened".
func TestURLCheckShortensValues(t *testing.T) {
	u := parse(t, "z://h?ttl="+strings.Repeat("x", 1<<20))
	u.Duration("ttl", 0)
	var field *store.FieldError
	require.ErrorAs(t, u.Check(), &field)
	require.Equal(t, "ttl", field.Field)
	require.LessOrEqual(t, len(field.Value), 64+len("..."))
}

func TestURLCheckNamesUnknownOptions(t *testing.T) {
	u := parse(t, "z://u:p@h?ttl=1s&tls=yes&Grace=1s")
	u.Duration("ttl", 0)
	u.Duration("grace", 0)
	user, password := u.Login()
	secret, err := password(t.Context())
	require.NoError(t, err)
	require.Equal(t, "u:p", user+":"+secret)
	err = u.Check()
	require.ErrorIs(t, err, store.ErrInvalid)
	require.ErrorContains(t, err, `invalid z URL: unknown option "tls"; it knows grace, passwordenv, passwordfile, ttl`)
	require.ErrorContains(t, err, `unknown option "Grace"`, "all of them, not only the first")
	require.NotContains(t, err.Error(), `option "ttl"`)
	require.NotContains(t, err.Error(), "yes", "a value may be a secret under a name that was misspelt")
}

// A package that does not ask for the user and the password has none: Check refuses them, and does not name their options.
func TestURLCheckRefusesALogin(t *testing.T) {
	for _, raw := range []string{"z://u@h", "z://:p@h"} {
		require.EqualError(t, parse(t, raw).Check(), "invalid z URL: it takes no user or password")
	}
	for _, raw := range []string{"z://h?passwordenv=HOME", "z://h?passwordfile=/etc/hosts"} {
		require.ErrorContains(t, parse(t, raw).Check(), "invalid z URL: it takes no user or password")
	}
	require.EqualError(t, parse(t, "z://h?tls=yes").Check(), `invalid z URL: unknown option "tls"; it knows `)
}

func TestURLCheckWithNothingWrong(t *testing.T) {
	for _, raw := range []string{"z://h", "z://h?", "z://h?ttl=5s"} {
		u := parse(t, raw)
		u.Duration("ttl", 0)
		u.Option("another", "")
		require.NoError(t, u.Check(), "%q", raw)
	}
}

func TestPasswordFromEnvironmentOrFile(t *testing.T) {
	t.Setenv("STORE_PASSWORD", plantedPassword)
	t.Setenv("STORE_EMPTY", "")
	file, empty := filepath.Join(t.TempDir(), "password"), filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(file, []byte(plantedPassword+"\r\n"), 0o600))
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	for _, raw := range []string{"z://a@h?passwordenv=STORE_PASSWORD", "z://a@h?passwordfile=" + file} {
		u, err := store.ParseURL(raw)
		require.NoError(t, err)
		user, password := u.Login()
		require.Equal(t, "a", user)
		secret, err := password(t.Context())
		require.NoError(t, err)
		require.Equal(t, plantedPassword, secret)
		require.NoError(t, u.Check(), "an option of every URL with a login")
		for _, shown := range []string{fmt.Sprint(u), fmt.Sprintf("%+v", *u), fmt.Sprintf("%#v", u), fmt.Sprintf("%#v", *u)} {
			require.NotContains(t, shown, plantedPassword)
		}
	}
	for raw, says := range map[string]string{
		"z://a:x@h?passwordenv=STORE_PASSWORD":                    "given twice",
		"z://a:x@h?passwordfile=" + file:                          "given twice",
		"z://a@h?passwordenv=STORE_PASSWORD&passwordfile=" + file: "given twice",
		"z://a@h?passwordenv=" + plantedPassword:                  "no such variable",
		"z://a@h?passwordenv=STORE_EMPTY":                         "invalid passwordenv",
		"z://a@h?passwordenv=":                                    "no such variable",
		"z://a@h?passwordfile=" + file + ".none":                  ".none",
		"z://a@h?passwordfile=" + empty:                           "empty",
		"z://a@h?passwordfile=":                                   "no such file",
		"z://a@h?passwordfile=" + filepath.Dir(file):              "directory",
	} {
		u, err := store.ParseURL(raw)
		if err == nil {
			u.Login()
			err = u.Check()
		}
		require.ErrorIs(t, err, store.ErrInvalid, "%q", raw)
		require.ErrorContains(t, err, says, "%q", raw)
		require.NotContains(t, err.Error(), plantedPassword)
	}
}

// A password is read each time it is needed, so that it may change. While it can't be read, that is an error.
func TestPasswordIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	set := map[string]func(string) error{
		"passwordfile=" + file:       func(text string) error { return os.WriteFile(file, []byte(text), 0o600) },
		"passwordenv=STORE_PASSWORD": func(text string) error { return os.Setenv("STORE_PASSWORD", text) },
	}
	t.Setenv("STORE_PASSWORD", "")
	for option, set := range set {
		require.NoError(t, set("first"))
		u := parse(t, "z://a@h?"+option)
		_, password := u.Login()
		require.NoError(t, u.Check())
		for _, want := range []string{"first", "second"} {
			require.NoError(t, set(want))
			secret, err := password(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, secret)
		}
		require.NoError(t, set(""))
		_, err := password(t.Context())
		require.ErrorContains(t, err, "empty")
		require.NotErrorIs(t, err, store.ErrInvalid, "it might come back")
	}
}

// What is not a regular file can be read once.
func TestPasswordOfAPipeIsReadOnce(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	_, err = write.WriteString("secret\n")
	require.NoError(t, err)
	require.NoError(t, write.Close())
	u := parse(t, fmt.Sprintf("z://a@h?passwordfile=/dev/fd/%d", read.Fd()))
	_, password := u.Login()
	require.NoError(t, u.Check())
	for range 2 {
		secret, err := password(t.Context())
		require.NoError(t, err)
		require.Equal(t, "secret", secret)
	}
}

// The user and the password of these tests. Neither is part of any text of the package.
const plantedUser, plantedPassword = "aL1ce", "hUnter2"

// shown returns the texts that a program may print of a URL: the errors, and what stands for the store in logs.
func shown(raw string) []string {
	u, err := store.ParseURL(raw)
	if err != nil {
		return []string{fmt.Sprintf("%v %#v", err, err)}
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("open", "store", u)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("open", "store", u)
	texts := []string{log.String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t"} {
		texts = append(texts, fmt.Sprintf(verb, u), fmt.Sprintf(verb, *u), fmt.Sprintf(verb, struct{ U store.URL }{*u}))
	}
	u.Duration("ttl", 0)
	if err := u.Check(); err != nil {
		texts = append(texts, err.Error())
	}
	if _, err := store.Open(context.Background(), raw, nil); err != nil { // the scheme is not registered
		texts = append(texts, err.Error())
	}
	return texts
}

func requireNoSecret(t *testing.T, raw string) {
	t.Helper()
	for _, text := range shown(raw) {
		require.NotContains(t, text, plantedPassword, "%q", raw)
		require.NotContains(t, text, plantedUser, "%q", raw)
	}
}

// TestNoSecretIsShown has a user and a password in the right place, and a fault in the rest of the URL, or in their
// characters that should have been escaped.
func TestNoSecretIsShown(t *testing.T) {
	both := plantedUser + ":" + plantedPassword
	for _, raw := range []string{
		"z://" + both + "@h:1,i/p?ttl=10s",
		"z://" + both + "@",
		"z://" + both + "@/p",
		"z://" + both + "@h:x",
		"z://" + both + "@h:1:2",
		"z://" + both + "@h,,i",
		"z://" + both + "@h h",
		"z://" + both + "@[::1",
		"z://" + both + "@h/%",
		"z://" + both + "@h?ttl=x&ttl=y",
		"z://" + both + "@h?ttl=x",
		"z://" + both + "@h?nonsense=1",
		"z://" + both + "@h?%zz",
		"z://" + both + "@h?a;b",
		"z://" + both + "@h#",
		"z://" + both + "@@h",
		"z://" + both + ":@h",
		"z://" + both + "%@h",
		"z://" + both + "%zz@h:x",
		"z://" + both + "%00@h:x",
		"z://%" + both + "@h",
		"z://" + plantedUser + "%zz:" + plantedPassword + "@h",
		"z://" + plantedUser + "@h:x",
		"z://" + plantedUser + "@" + plantedPassword + "@h:x",
		"z://:" + plantedPassword + "@h:x",
		"z://a,b:c," + both + "@h:x",
		both + "@h",
		both + "@z://h",
		"z:" + both + "@h",
		"z:/" + both + "@h",
		"//" + both + "@h",
		"://" + both + "@h",
		"z " + "://" + both + "@h",
		"z:" + both + "://h",
	} {
		t.Run(raw, func(t *testing.T) { requireNoSecret(t, raw) })
	}
}

// TestNoSecretIsShownWhereItWasNotEscaped: sooner or later a generated password contains "/", "?" or "#". If it is
// pasted without escapes, logs must not show it.
func TestNoSecretIsShownWhereItWasNotEscaped(t *testing.T) {
	for _, c := range "/?#@:,;&=+ %[]\\\"\n" {
		for _, raw := range []string{
			fmt.Sprintf("z://%s:%s%c%s@h:1/p?ttl=10s", plantedUser, plantedPassword, c, plantedPassword),
			fmt.Sprintf("z://%s:%c%s@h:1/p?ttl=10s", plantedUser, c, plantedPassword),
			fmt.Sprintf("z://%s:1%c%s@h:1/p?ttl=10s", plantedUser, c, plantedPassword),
			fmt.Sprintf("z://%s:%s%c@h:1", plantedUser, plantedPassword, c),
			fmt.Sprintf("z://%c%s:%s@h:1", c, plantedUser, plantedPassword),
			fmt.Sprintf("z://%s%c:%s@h:1", plantedUser, c, plantedPassword),
		} {
			t.Run(raw, func(t *testing.T) { requireNoSecret(t, raw) })
		}
	}
}

// TestNoSecretIsShownWhereTheHostWasForgotten: without "@" the user and the password stand where a host should.
func TestNoSecretIsShownWhereTheHostWasForgotten(t *testing.T) {
	for _, raw := range []string{
		"z://" + plantedUser + ":" + plantedPassword,
		"z://" + plantedUser + ":" + plantedPassword + "/p?ttl=10s",
		"z://" + plantedUser + ":" + plantedPassword + ",h:1",
	} {
		t.Run(raw, func(t *testing.T) { requireNoSecret(t, raw) })
	}
}

// FuzzParseURLShowsNoSecret puts the secret before an "@", among arbitrary text.
func FuzzParseURLShowsNoSecret(f *testing.F) {
	for _, rest := range []string{"h", "h:1,i:2/p?ttl=10s", "h:x", "h/%", "", "[::1]:1", "h?a=1&a=2", "h?%", "@h", "h#"} {
		for _, junk := range []string{"", "%", "%zz", "@", ":", ",", " ", "/", "?", "#", "/?", "1/", "1?"} {
			f.Add(junk, junk, rest)
		}
	}
	f.Fuzz(func(t *testing.T, inUser, inPassword, rest string) {
		for _, junk := range []string{inUser, inPassword, rest} {
			if strings.Contains(junk, plantedUser) || strings.Contains(junk, plantedPassword) {
				return
			}
		}
		requireNoSecret(t, "z://"+plantedUser+inUser+":"+inPassword+plantedPassword+"@"+rest)
	})
}
