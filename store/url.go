package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-leadership/leadership/internal/hostport"
	"github.com/go-leadership/leadership/internal/redact"
)

// URL is a store's address and settings, as in
//
//	zookeeper://user:password@host1:2181,host2:2181/path?ttl=10s
//
// ParseURL makes one; one made by hand has no options after the "?". Options of the same name mean the same in every
// adapter. A URL shows no password, whatever verb prints it.
type URL struct {
	Scheme   string   // without "://"
	User     string   // empty if there is none
	Password string   // a secret: never print it
	Hosts    []string // as given, "host" or "host:port"; none if the URL names none
	Path     string   // without "/" at either end

	// Options are the settings that are not in the text of a URL. Open sets them.
	Options

	options map[string]string // nil in a URL that was not parsed, as is used
	used    map[string]bool   // options that the store's package has asked for
	refused map[string]string // why options that the store's package knows can't be given
	login   bool              // it has asked for user and password
	errs    []error
}

// Options are the settings of a store that are not in the text of a URL. The zero value of each field stands for its
// default.
type Options struct {
	// Logger receives what happens between the store and its service: trouble at Warn, the rest at Debug. An outage that
	// lasts for a second after a request has failed is one line at Warn, with the cause, and one at Info when a request
	// is answered again, with the duration. The handler is called in a goroutine of its own, line by line: if it hangs, only
	// Close waits for it, a second at most. A line that it panics for goes to slog.Default. Default: slog.Default.
	Logger *slog.Logger
	// Renewed is called for each renewal of the store's session, with the time from the request to the confirmation, for
	// metrics. All elections of the store share the session. One call comes after the other, in a goroutine of its own; only
	// Close waits for it, a second at most. A panic is logged. Default: none.
	Renewed func(latency time.Duration)
	// Dial opens the connections of a store that speaks over a network, for example through a proxy. TLS, if any, is
	// spoken on top of them. A store without a network ignores it. Default: a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// ParseURL parses the URL of a store. Its errors show no part of the URL that might be a user or a password. "@" and
// "#" must be written %40 and %23, except for the one "@" after the password.
//
// The password may be kept out of the URL: the option passwordenv names the environment variable that holds it,
// passwordfile a file; line breaks at its end are not part of it. ParseURL reads neither: see [URL.Login].
func ParseURL(raw string) (*URL, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || scheme == "" || strings.ContainsFunc(scheme, notInScheme) {
		return nil, &FieldError{Field: "store URL", Reason: `it does not begin with "scheme://"`}
	}
	u := &URL{Scheme: strings.ToLower(scheme), options: map[string]string{}}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(rest, "/")
	user := ""
	if i := strings.LastIndexByte(hosts, '@'); i >= 0 {
		user, hosts = hosts[:i], hosts[i+1:]
	}
	switch {
	case strings.ContainsFunc(raw, unicode.IsControl) || !utf8.ValidString(raw):
		return nil, u.invalid("it has a control character or is not valid UTF-8")
	case strings.Contains(raw, "#"):
		return nil, u.invalid(`"#" has to be written %%23`)
	case strings.Contains(path+query, "@"):
		return nil, u.invalid(`behind the hosts "@" has to be written %%40, and "/" and "?" in a password %%2F and %%3F`)
	}
	if err := cmp.Or(u.setUser(user), u.setHosts(hosts), u.setPath(path), u.setOptions(query), u.checkPassword()); err != nil {
		return nil, err
	}
	return u, nil
}

func notInScheme(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '+' || r == '-' || r == '.')
}

func (u *URL) setUser(info string) error {
	user, password, _ := strings.Cut(info, ":")
	var err1, err2 error
	u.User, err1 = url.PathUnescape(user)
	u.Password, err2 = url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		return u.invalid("user or password has a wrong %%-escape")
	}
	return nil
}

func (u *URL) setHosts(list string) error {
	if list == "" {
		return nil
	}
	u.Hosts = strings.Split(list, ",")
	if reason := hostport.RefuseAny(u.Hosts); reason != "" {
		return u.invalid("%s", reason)
	}
	return nil
}

func (u *URL) setPath(path string) error {
	var err error
	if path, err = url.PathUnescape(path); err != nil {
		return u.invalid("the path has a wrong %%-escape")
	}
	if strings.ContainsFunc(path, unicode.IsControl) || !utf8.ValidString(path) {
		return u.invalid("the path has a control character or is not valid UTF-8")
	}
	u.Path = strings.Trim(path, "/")
	return nil
}

func (u *URL) setOptions(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return u.invalid("the options after \"?\" are not of the form name=value&name=value")
	}
	for name, v := range values {
		if len(v) > 1 {
			return u.invalid("option %q is given %d times", redact.Shorten(name), len(v))
		}
		u.options[name] = v[0]
	}
	return nil
}

// checkPassword finds out whether the password is given once at most.
func (u *URL) checkPassword() error {
	_, inEnv := u.options["passwordenv"]
	_, inFile := u.options["passwordfile"]
	if (inEnv || inFile) && (u.Password != "" || inEnv && inFile) {
		return u.invalid("the password is given twice: one of URL, option passwordenv and option passwordfile has to be enough")
	}
	return nil
}

func (u *URL) invalid(format string, args ...any) error {
	return &FieldError{Field: u.Scheme + " URL", Reason: fmt.Sprintf(format, args...)}
}

// String returns the URL without user, password and options. Errors and logs name the store by it.
func (u URL) String() string {
	return u.Scheme + "://" + strings.Join(u.Hosts, ",") + "/" + u.Path
}

// Format implements fmt.Formatter: with every verb it prints what String returns.
func (u URL) Format(f fmt.State, verb rune) { redact.Format(f, verb, u.String()) }

// Login returns the user, and a function that returns the password; nil if there is none. The store calls the function
// for each connection or request that needs the password: the function reads the variable of the option passwordenv, or
// the file of passwordfile, each time, so that a password may change. What is no regular file, such as a pipe, is read
// once. Check returns an error if the password can't be read now. If the store's package does not call Login, Check
// refuses a URL that has a user or a password.
func (u *URL) Login() (user string, password func(context.Context) (string, error)) {
	u.login = true
	name, inEnv := u.ask("passwordenv")
	file, inFile := u.ask("passwordfile")
	switch {
	case inEnv:
		password = func(context.Context) (string, error) { return passwordOf(name) }
		if _, err := passwordOf(name); err != nil {
			u.errs = append(u.errs, invalid("passwordenv", "", "%v", err))
		}
	case inFile:
		first, err := readPassword(file)
		if err != nil {
			u.errs = append(u.errs, invalid("passwordfile", file, "%v", err))
		}
		password = func(context.Context) (string, error) { return readPassword(file) }
		if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
			password = func(context.Context) (string, error) { return first, nil }
		}
	case u.Password != "":
		password = func(context.Context) (string, error) { return u.Password, nil }
	}
	return u.User, password
}

// passwordOf returns the password that an environment variable holds. The error does not show the name: a password might
// have been written in its place.
func passwordOf(variable string) (string, error) {
	if password := os.Getenv(variable); password != "" {
		return password, nil
	}
	return "", errors.New("the environment has no such variable, or an empty one")
}

// readPassword reads a file that holds a password.
func readPassword(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" {
		return "", fmt.Errorf("%s is empty", file)
	}
	return password, nil
}

// Option returns the option's value, or def if the URL does not have it. If the option is given and empty, Check
// returns an error.
func (u *URL) Option(name, def string) string {
	v, ok := u.ask(name)
	switch {
	case !ok:
		return def
	case v == "":
		u.errs = append(u.errs, invalid(name, "", "the option is given and empty"))
	}
	return v
}

// ask returns an option as it was written, and notes that the store's package knows it.
func (u *URL) ask(name string) (value string, given bool) {
	if u.used == nil {
		u.used = map[string]bool{}
	}
	u.used[name] = true
	value, given = u.options[name]
	return value, given
}

// Refuse makes Check return the reason if the URL has the option: it is one of another store, or of an earlier version.
func (u *URL) Refuse(option, reason string) {
	if u.refused == nil {
		u.refused = map[string]string{}
	}
	u.refused[option] = reason
}

// Duration returns the option as a duration ("10s", "1m30s"), or def if the URL does not have it.
func (u *URL) Duration(name string, def time.Duration) time.Duration {
	v, ok := u.ask(name)
	if !ok {
		return def
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		u.errs = append(u.errs, invalid(name, v, `not a duration such as "10s"`))
	}
	return d
}

// Check returns an error that names every option that the store's package has not asked for, or whose value has the
// wrong type, and a user or password that it has not asked for; nil if there is none. The package calls it after it has read its options, before it connects.
func (u *URL) Check() error {
	known := slices.Collect(maps.Keys(u.used))
	_, inEnv := u.options["passwordenv"]
	_, inFile := u.options["passwordfile"]
	if !u.login && (u.User != "" || u.Password != "" || inEnv || inFile) {
		u.errs = append(u.errs, u.invalid("it takes no user or password"))
	}
	slices.Sort(known)
	for _, name := range slices.Sorted(maps.Keys(u.options)) {
		switch {
		case u.used[name]:
		case u.refused[name] != "":
			u.errs = append(u.errs, invalid(name, redact.Shorten(u.options[name]), "%s", u.refused[name]))
		case slices.Contains(tlsOptions, name) && registered(u.Scheme+"+tls"):
			u.errs = append(u.errs, u.invalid("option %q is known with TLS alone: write %s+tls://", name, u.Scheme))
		default:
			u.errs = append(u.errs, u.invalid("unknown option %q; it knows %s", redact.Shorten(name), strings.Join(known, ", ")))
		}
	}
	return errors.Join(u.errs...)
}
