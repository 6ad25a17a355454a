package store

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// URL is a store's address and settings, as in
//
//	zookeeper://user:password@host1:2181,host2:2181/path?ttl=10s
//
// Every adapter understands the same option names in the same meaning. Its String holds no password.
type URL struct {
	Scheme   string   // without "://"
	User     string   // empty where there is none
	Password string   // a secret: never print it
	Hosts    []string // as given, "host" or "host:port"; none where the URL names none
	Path     string   // without "/" at either end

	options map[string]string
	used    map[string]bool
	errs    []error
}

// ParseURL parses the URL of a store. Its errors never show the user's password.
func ParseURL(raw string) (*URL, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || scheme == "" || strings.ContainsFunc(scheme, notInScheme) {
		return nil, &FieldError{Field: "store URL", Reason: `it does not begin with "scheme://"`}
	}
	rest, query, _ := strings.Cut(rest, "?")
	u := &URL{Scheme: strings.ToLower(scheme), options: map[string]string{}, used: map[string]bool{}}
	if strings.Contains(query, "#") || strings.Contains(rest, "#") {
		return nil, u.invalid(`"#" has to be written %%23`)
	}
	authority, path, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		if err := u.setUser(authority[:i]); err != nil {
			return nil, err
		}
		authority = authority[i+1:]
	}
	if err := u.setHosts(authority); err != nil {
		return nil, err
	}
	var err error
	if u.Path, err = url.PathUnescape(strings.Trim(path, "/")); err != nil {
		return nil, u.invalid("the path has a wrong %%-escape")
	}
	if err := u.setOptions(query); err != nil {
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
	for host := range strings.SplitSeq(list, ",") {
		if err := checkHost(host); err != nil {
			return u.invalid("host %q: %v", host, err)
		}
		u.Hosts = append(u.Hosts, host)
	}
	return nil
}

func checkHost(host string) error {
	name := host
	if strings.Contains(strings.TrimPrefix(host, "["), ":") && !strings.HasSuffix(host, "]") {
		var port string
		var err error
		if name, port, err = net.SplitHostPort(host); err != nil {
			return errors.New(`it is not "host", "host:port" or "[IPv6]:port"`)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("port %q is not a port", port)
		}
	}
	if name == "" || strings.ContainsAny(name, " \t\r\n") {
		return errors.New("it has no name")
	}
	return nil
}

func (u *URL) setOptions(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return u.invalid("the options after \"?\" are not of the form name=value&name=value")
	}
	for name, v := range values {
		if len(v) > 1 {
			return u.invalid("option %q is given %d times", name, len(v))
		}
		u.options[name] = v[0]
	}
	return nil
}

func (u *URL) invalid(format string, args ...any) error {
	return &FieldError{Field: u.Scheme + " URL", Reason: fmt.Sprintf(format, args...)}
}

// String returns the URL without user, password and options: what errors and logs name the store by.
func (u *URL) String() string {
	return u.Scheme + "://" + strings.Join(u.Hosts, ",") + "/" + u.Path
}

// Option returns the option's value, or def where the URL does not have it.
func (u *URL) Option(name, def string) string {
	u.used[name] = true
	if v, ok := u.options[name]; ok {
		return v
	}
	return def
}

// Duration returns the option as a duration ("10s", "1m30s"), or def where the URL does not have it.
func (u *URL) Duration(name string, def time.Duration) time.Duration {
	v := u.Option(name, "")
	if _, ok := u.options[name]; !ok {
		return def
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		u.errs = append(u.errs, &FieldError{Field: name, Value: v, Reason: `not a duration such as "10s"`})
	}
	return d
}

// Check returns an error that names every option which the adapter has not asked for, or whose value was not of its
// kind; nil where there is none. An adapter calls it after it has read its options, before it connects.
func (u *URL) Check() error {
	known := slices.Sorted(maps.Keys(u.used))
	for _, name := range slices.Sorted(maps.Keys(u.options)) {
		if !u.used[name] {
			u.errs = append(u.errs, u.invalid("unknown option %q; it knows %s", name, strings.Join(known, ", ")))
		}
	}
	return errors.Join(u.errs...)
}
