package file

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/faulty"
	"github.com/go-leadership/leadership/store"
)

// Config are the settings of a store. The zero value of each field stands for its default.
type Config struct {
	// Directory is where the elections are. Required. The first candidate makes it. All processes with the same
	// directory take part in the same elections. The comment of the package names the file systems that it may be on.
	Directory string
	// TTL is how long a session lives without renewal. Default: 10 s. A process that is killed is replaced at once. One
	// that is frozen is replaced after its TTL.
	TTL time.Duration
	// Grace is the time reserved for the leader's work to stop before a rival can lead. Default: a third of the TTL.
	// See [store.CheckSession].
	Grace time.Duration
	// Logger is that of [store.Options].
	Logger *slog.Logger
	// Renewed is that of [store.Options].
	Renewed func(latency time.Duration)

	faults *faulty.Line // what lies between the store and the directory; nil for nothing. Only the suites set it.
}

const leastTTL, mostTTL = 100 * time.Millisecond, 24 * time.Hour

// settings points to the fields that all stores have.
func (c *Config) settings() adapter.Settings {
	return adapter.Settings{
		TTL: &c.TTL, Grace: &c.Grace, Least: leastTTL, Most: mostTTL, Unit: time.Millisecond, Logger: &c.Logger, Renewed: &c.Renewed,
		NoLifeline: "a directory needs none: the kernel ends the session of a process that is dead",
	}
}

// complete fills in the defaults. It returns an error that names the first field which can't be used.
func (c *Config) complete() error {
	switch {
	case c.Directory == "":
		return adapter.Refuse("directory", "", "there is none: the URL is of the form file:///directory")
	case !filepath.IsAbs(c.Directory) || filepath.Clean(c.Directory) != c.Directory || c.Directory == "/":
		return adapter.Refuse("directory", c.Directory, `it is not an absolute path, or is "/", or has "//", "." or ".." in it`)
	case strings.ContainsRune(c.Directory, 0):
		return adapter.Refuse("directory", c.Directory, "it has a NUL byte")
	}
	return c.settings().Complete()
}

// refuseWritable refuses a directory that all users may write to, also for followers: no candidate would use it.
func (c Config) refuseWritable() error {
	info, err := os.Stat(c.Directory)
	if err != nil || info.Mode().Perm()&0o002 == 0 {
		return nil // another error is that of the first request
	}
	return adapter.Refuse("directory", c.Directory, "all users may write to it, and so remove what others have made: "+
		"let a group write to it (chmod o-w)")
}

// name is the store in errors and logs.
func (c Config) name() string { return "file://" + c.Directory }

func init() { store.Register("file", openURL) }

// openURL opens file:///directory?options. The options are ttl and grace.
func openURL(ctx context.Context, u *store.URL) (store.Store, error) {
	c, err := configOf(u)
	if err != nil {
		return nil, err
	}
	c.faults = faulty.Of(ctx)
	return Open(c)
}

// configOf returns the configuration that a URL stands for.
func configOf(u *store.URL) (Config, error) {
	var c Config
	if u.Path != "" {
		c.Directory = "/" + u.Path
	}
	if err := c.settings().Read(u); err != nil {
		return c, err
	}
	if len(u.Hosts) > 0 && strings.HasPrefix(u.Hosts[0], "~") {
		return c, adapter.Refuse("file URL", "", "a URL has no ~ for the home directory: write the path in full, or file://$HOME/%s in a shell", u.Path)
	}
	if len(u.Hosts) > 0 {
		return c, adapter.Refuse("file URL", "", "a directory on this machine has no host: write file:///%s with three slashes",
			strings.TrimSuffix(u.Hosts[0]+"/"+u.Path, "/"))
	}
	return c, nil
}
