package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// OpenFunc opens the store that a URL names. It checks the settings and begins to connect; it does not wait for the
// service, so that a process can start before it.
type OpenFunc func(ctx context.Context, u *URL) (Store, error)

var (
	schemesMu sync.Mutex
	schemes   = map[string]OpenFunc{} // guarded by schemesMu
)

// ours are the schemes of this repository's stores.
var ours = []string{"zookeeper", "zookeeper+tls", "etcd", "etcd+tls", "consul", "consul+tls", "postgres", "postgres+tls", "memory", "file"}

// Register registers a store under its URL scheme. A store's package calls it from init, so that importing the package
// for its side effect is enough, as with the drivers of database/sql. It panics if the scheme is taken: two packages of
// the program then claim the same name. It panics if open is nil.
func Register(scheme string, open OpenFunc) {
	if open == nil {
		panic("store: scheme " + scheme + " registered with a nil function")
	}
	schemesMu.Lock()
	defer schemesMu.Unlock()
	if _, taken := schemes[scheme]; taken {
		panic("store: scheme " + scheme + " registered twice")
	}
	schemes[scheme] = open
}

func registered(scheme string) bool {
	schemesMu.Lock()
	defer schemesMu.Unlock()
	return schemes[scheme] != nil
}

// Open opens the store that a URL names, for example
//
//	st, err := store.Open(ctx, "zookeeper://10.0.0.1:2181,10.0.0.2:2181/prod?ttl=10s", &store.Options{Logger: slog.Default()})
//
// The package of the URL's scheme has to be imported, if only for its side effect:
//
//	import _ "github.com/go-leadership/leadership/store/zookeeper"
//
// A wrong URL or option is refused at once with an error that matches [ErrInvalid] and names it; no error shows a
// password. Open does not wait until the service answers, nor does ctx end the store: Close does.
//
// Nil options are the defaults.
func Open(ctx context.Context, rawURL string, opts *Options) (Store, error) {
	u, err := ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	if opts != nil {
		u.Options = *opts
	}
	return OpenURL(ctx, u)
}

// OpenURL is Open for a URL that was parsed, and perhaps changed, or made by hand. Use a URL for one store only: the
// store's package marks the options that it has read.
func OpenURL(ctx context.Context, u *URL) (Store, error) {
	if u == nil {
		return nil, &FieldError{Field: "store URL", Reason: "it is nil"}
	}
	schemesMu.Lock()
	open, ok := schemes[u.Scheme]
	known := slices.Sorted(maps.Keys(schemes))
	schemesMu.Unlock()
	if !ok {
		have := cmp.Or(strings.Join(known, ", "), "none")
		todo := ""
		switch {
		case u.Scheme == "http":
			todo = "; begin the URL with the name of the store: etcd:// or consul://"
		case u.Scheme == "https":
			todo = "; begin the URL with the name of the store: etcd+tls:// or consul+tls://"
		case slices.Contains(ours, u.Scheme):
			todo = fmt.Sprintf("; import _ %q", "github.com/go-leadership/leadership/store/"+strings.TrimSuffix(u.Scheme, "+tls"))
		}
		return nil, invalid("store scheme", u.Scheme, "no imported package registered it (imported: %s)%s", have, todo)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return open(ctx, u)
}
