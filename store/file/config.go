package file

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// Config are the settings of a store. The zero value of each field stands for its default.
type Config struct {
	// Directory is where the elections are; required. It is made when the first candidate stands. All processes that give
	// the same one exclude each other; see the comment of the package for the file systems that it may be on.
	Directory string
	// TTL is how long a session lives without renewal; 10 s. A process that is killed is replaced at once. One that is
	// frozen is replaced after its TTL.
	TTL time.Duration
	// Grace is the time reserved for the leader's work to stop before a rival can lead; a third of the TTL. At least a
	// twelfth of it, and less than half.
	Grace time.Duration
	// Logger receives trouble at level Warn, and the rest at Debug; nothing is logged.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.TTL == 0 {
		c.TTL = 10 * time.Second
	}
	if c.Grace == 0 {
		c.Grace = c.TTL / 3
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

const leastTTL, mostTTL = 100 * time.Millisecond, 24 * time.Hour

// check returns an error that names the first field which can't be used.
func (c Config) check() error {
	switch {
	case c.Directory == "":
		return adapter.Refuse("directory", "", "there is none: the URL is of the form file:///directory")
	case !filepath.IsAbs(c.Directory) || filepath.Clean(c.Directory) != c.Directory || c.Directory == "/":
		return adapter.Refuse("directory", c.Directory, `it is not an absolute path, or is "/", or has "//", "." or ".." in it`)
	case strings.ContainsRune(c.Directory, 0):
		return adapter.Refuse("directory", c.Directory, "it has a NUL byte")
	case c.TTL < leastTTL || c.TTL > mostTTL:
		return adapter.Refuse("ttl", c.TTL.String(), "not from %v to %v", leastTTL, mostTTL)
	case c.Grace < c.TTL/12 || c.Grace >= c.TTL/2:
		return adapter.Refuse("grace", c.Grace.String(), "not from a twelfth to below half of the ttl %v", c.TTL)
	}
	return nil
}

// name is the store in errors and logs.
func (c Config) name() string { return "file://" + c.Directory }

func init() { store.Register("file", openURL) }

// openURL opens file:///directory?options. The options are ttl and grace.
func openURL(_ context.Context, u *store.URL) (store.Store, error) {
	c, err := configOf(u)
	if err != nil {
		return nil, err
	}
	return Open(c)
}

// configOf returns the configuration that a URL stands for.
func configOf(u *store.URL) (Config, error) {
	c := Config{Directory: "/" + u.Path, Logger: u.Logger}
	c.TTL, c.Grace = u.Session()
	if err := u.Check(); err != nil {
		return c, err
	}
	switch {
	case len(u.Hosts) > 0:
		reason := fmt.Sprintf("a directory on this machine has no host: write file:///%s/%s with three slashes", u.Hosts[0], u.Path)
		return c, &store.FieldError{Field: "file URL", Reason: strings.TrimSuffix(reason, "/")}
	case u.User != "" || u.Password != "":
		return c, &store.FieldError{Field: "file URL", Reason: "it takes no user or password: who may use a directory is up to its permissions"}
	case u.Path == "":
		c.Directory = ""
	}
	return c, nil
}
