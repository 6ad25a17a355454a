package adapter

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/hostport"
	"github.com/go-leadership/leadership/internal/lifeline"
	"github.com/go-leadership/leadership/internal/redact"
	"github.com/go-leadership/leadership/internal/teller"
	"github.com/go-leadership/leadership/store"
)

// Settings are the settings that the stores have in common, and how to read them from a URL, complete, check and print
// them. They point to the fields of a store's Config, which is flat, so that a program writes etcd.Config{TTL: ttl}.
type Settings struct {
	TTL, Grace        *time.Duration
	Least, Most, Unit time.Duration // see store.CheckSession
	Logger            **slog.Logger
	Renewed           *func(latency time.Duration)

	// A store without a network has none of the following.
	Servers  *[]string // addresses
	Field    string    // the name of Servers in errors
	Port     string    // of an address that names none
	User     *string   // nil if the service knows no users
	Password *string   // or token

	// PasswordFunc is set by Complete, and then returns the password in any case: each time that the service asks for it.
	// Password is empty then.
	PasswordFunc *func(ctx context.Context) (string, error)

	NoPassword bool // a user needs none
	TLS        **tls.Config
	Dial       *func(ctx context.Context, network, address string) (net.Conn, error)
	Dialer     **Dialer // Complete makes it, unless there is one
	Client     string   // the name in errors of a client that is not the store's own
	Given      bool     // there is such a client
	Lifeline   *string
	Secure     *func() (*lifeline.Secure, error) // reads the files of TLS that a URL names; points to nil if no URL does

	NoLifeline string // why a store without Lifeline needs none
}

// Read takes the settings from a URL. The store has asked for its own options before: Read refuses all other options,
// and a user or a password if the service knows none.
func (s Settings) Read(u *store.URL) error {
	*s.TTL, *s.Grace = u.Session()
	*s.Logger, *s.Renewed = u.Logger, u.Renewed
	if s.Lifeline == nil {
		u.Refuse("lifeline", s.NoLifeline)
	} else {
		*s.Lifeline, *s.Secure = u.Option("lifeline", ""), func() (*lifeline.Secure, error) { return secure(u) }
	}
	if s.Servers != nil {
		*s.Servers, *s.TLS, *s.Dial = u.Hosts, u.TLS(), u.Dial
		user, password := u.Login()
		if *s.Password = u.Password; *s.Password == "" {
			*s.PasswordFunc = password
		}
		if s.User != nil {
			*s.User = user
		}
	}
	return u.Check()
}

// Complete fills in the defaults, and makes the logger write in a goroutine of its own. It returns an error that names the
// first setting which can't be used.
func (s Settings) Complete() error {
	if *s.Logger == nil {
		*s.Logger = slog.Default()
	}
	*s.Logger = teller.Logger(*s.Logger)
	if err := store.CheckSession(s.TTL, s.Grace, s.Least, s.Most, s.Unit); err != nil || s.Servers == nil {
		return err
	}
	user := ""
	if s.User != nil {
		user = *s.User
	}
	secret := *s.Password != "" || *s.PasswordFunc != nil
	switch {
	case *s.Password != "" && *s.PasswordFunc != nil:
		return Refuse("password", "", "it is given twice: as text, and as a function")
	case !s.Given && len(*s.Servers) == 0:
		return Refuse(s.Field, "", "there are none")
	case s.Given && (len(*s.Servers) > 0 || user != "" || secret || *s.TLS != nil || *s.Dial != nil):
		return Refuse(s.Client, "", "%s, credentials, TLS and dial belong to a client of the store's own", s.Field)
	case s.User != nil && user == "" && secret:
		return Refuse("user", "", "there is a password and no user")
	case user != "" && !secret && !s.NoPassword:
		return Refuse("user", "", "there is a user and no password")
	}
	if reason := hostport.RefuseAny(*s.Servers); reason != "" {
		return Refuse(s.Field, "", "%s", reason)
	}
	if err := s.checkLifeline(); err != nil {
		return err
	}
	*s.Servers = hostport.WithPorts(*s.Servers, s.Port)
	*s.PasswordFunc, *s.Password = s.password(), ""
	switch {
	case *s.Dialer != nil:
	case *s.Dial != nil:
		*s.Dialer = NewDialer(*s.Dial, nil)
	default:
		*s.Dialer = SystemDialer()
	}
	return nil
}

// ErrPassword says that there is no password at the moment, so that a request was not sent. It matches
// store.ErrUnavailable.
var ErrPassword = fmt.Errorf("%w: there is no password", store.ErrUnavailable)

// password returns the function that the store calls. The password is in no field, so that neither package fmt nor a
// debugger's dump of the store comes upon it.
func (s Settings) password() func(context.Context) (string, error) {
	fixed, given := *s.Password, *s.PasswordFunc
	if given == nil {
		return func(context.Context) (string, error) { return fixed, nil }
	}
	needed := s.User != nil && !s.NoPassword
	return func(ctx context.Context) (string, error) {
		password, err := given(ctx)
		switch {
		case err != nil: // in words: whatever the error is, another attempt might succeed
			return "", fmt.Errorf("%w: %v", ErrPassword, err)
		case password == "" && needed:
			return "", fmt.Errorf("%w: it is empty", ErrPassword)
		case strings.ContainsAny(password, "\x00\r\n"):
			return "", fmt.Errorf("%w: it has a line break or a zero byte in it", ErrPassword)
		}
		return password, nil
	}
}

// checkLifeline returns an error if another process could not end the store's sessions.
func (s Settings) checkLifeline() error {
	if s.Lifeline == nil || *s.Lifeline == "" {
		return nil
	}
	reason := ""
	switch err := lifeline.Check(*s.Lifeline); {
	case err != nil:
		reason = err.Error()
	case s.Given:
		reason = "it needs a client of the store's own"
	case *s.Dial != nil:
		reason = "another process can't use the function that dials"
	case *s.TLS != nil && *s.Secure == nil:
		reason = "another process can't use these TLS settings: name the files in a URL"
	default:
		return nil
	}
	return Refuse("lifeline", *s.Lifeline, "%s", reason)
}

// OpenLifeline returns what tells the lifeline of the store's sessions, and nil if there is to be no lifeline. The
// settings are complete.
func (s Settings) OpenLifeline(life *Lifecycle, scheme string, parameters map[string]string) (lifeline.Line, error) {
	if *s.Lifeline == "" {
		return nil, nil
	}
	service := lifeline.Service{Scheme: scheme, TTL: *s.TTL, Servers: *s.Servers, Parameters: parameters}
	if s.User != nil {
		service.User = *s.User
	}
	secured, read, password := *s.TLS != nil, *s.Secure, *s.PasswordFunc
	client, err := lifeline.Open(*s.Lifeline, life.Name, *s.TTL, func() (lifeline.Service, error) {
		service := service
		var err error
		if service.Password, err = password(life.Background); err == nil && secured {
			service.Secure, err = read()
		}
		return service, err
	}, *s.Logger)
	if err != nil {
		return nil, Refuse("lifeline", *s.Lifeline, "%v", err)
	}
	return client, nil
}

// secure reads the files of TLS that a URL names.
func secure(u *store.URL) (*lifeline.Secure, error) {
	s := &lifeline.Secure{ServerName: u.Option("servername", "")}
	for option, content := range map[string]*[]byte{"cacert": &s.Roots, "cert": &s.Cert, "key": &s.Key} {
		if file := u.Option(option, ""); file != "" {
			var err error
			if *content, err = os.ReadFile(file); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// Print does the work of a Config's Format method. config points to a copy of the Config, as a type without the method.
// There are stars instead of the password, and of addresses that Complete would refuse: such an address might hold a
// whole URL with a password.
func (s Settings) Print(f fmt.State, verb rune, config any) {
	if *s.Password != "" {
		*s.Password = "***"
	}
	*s.Servers = hostport.Hide(*s.Servers)
	_, _ = fmt.Fprintf(f, fmt.FormatString(f, verb), reflect.ValueOf(config).Elem())
}

// Secure speaks TLS on a connection. The server's certificate is that of the address, unless the settings name another.
func Secure(ctx context.Context, conn net.Conn, config *tls.Config, address string) (net.Conn, error) {
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// Refuse says why a setting can't be used.
func Refuse(field, value, format string, args ...any) error {
	return &store.FieldError{Field: field, Value: redact.Shorten(value), Reason: fmt.Sprintf(format, args...)}
}
