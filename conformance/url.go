package conformance

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/faulty"
	"github.com/go-leadership/leadership/store"
)

// URL returns the harness of the store that a URL names, on a running service that others may use too. The package of
// its scheme has to be imported. The suite reads and writes only below its own path, which is below the URL's. Clear
// without an election removes that path.
//
// Memory is refused: no other process sees it. A directory has no network to cut; faults are injected between its store
// and the kernel.
//
// OpenLeast opens with the option grace at a twelfth of the TTL. Expiry is set to twice the TTL and a second, the longest
// that the stores of this module document for a service that itself keeps running.
func URL(rawURL, place string) (Harness, error) {
	parse := func(rawURL string) (*store.URL, error) {
		u, err := store.ParseURL(rawURL)
		if err == nil {
			u.Path = strings.TrimPrefix(u.Path+"/"+place, "/") // not cleaned, for the stores take it as it is
		}
		return u, err
	}
	u, err := parse(rawURL)
	if err != nil {
		return Harness{}, err
	}
	ofFile, files := u.Scheme == "file", &faulty.Stores{}
	if u.Scheme == "memory" {
		return Harness{}, errors.New("conformance: memory has no network to cut; " +
			"go test -run TestMemory ./conformance runs the suite on it")
	}
	ttl, _ := u.Session()
	opener := func(rawURL string) func(context.Context, DialFunc) (store.Store, error) {
		return func(ctx context.Context, dial DialFunc) (store.Store, error) {
			u, err := parse(rawURL)
			if err != nil {
				return nil, err
			}
			u.Logger = silent.Logger
			if ofFile {
				return files.Open(ctx, func(ctx context.Context) (store.Store, error) { return store.OpenURL(ctx, u) })
			}
			u.Dial = dial
			return store.OpenURL(ctx, u)
		}
	}
	open := opener(rawURL)
	st, err := open(context.Background(), nil) // checks the URL
	if err != nil {
		return Harness{}, err
	}
	if err := st.Close(); err != nil {
		return Harness{}, err
	}
	h := Harness{
		Open:      open,
		OpenLeast: opener(withGrace(rawURL, ttl/12)),
		Clear:     func(ctx context.Context, election string) error { return clearWith(ctx, open, election) },
		TTL:       ttl,
		Expiry:    2*ttl + time.Second,
	}
	if ofFile {
		h.Faults = func(st store.Store) Faults { return files.Line(st) }
		if place != "" {
			h.Clear = clearDirectory("/"+u.Path, h.Clear)
		}
	}
	return h, nil
}

// clearDirectory returns a Clear that, without an election, removes the whole directory of the suite: the store keeps a
// few files there for its tokens. It also removes the directories above that do not exist yet.
func clearDirectory(dir string, clearOne func(context.Context, string) error) func(context.Context, string) error {
	var above []string
	for up := path.Dir(dir); up != "/"; up = path.Dir(up) {
		if _, err := os.Stat(up); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		above = append(above, up)
	}
	return func(ctx context.Context, election string) error {
		if election != "" {
			return clearOne(ctx, election)
		}
		err := os.RemoveAll(dir)
		for _, up := range above {
			_ = os.Remove(up) // it fails if others use it by now
		}
		return err
	}
}

// withGrace returns the URL of a store with another grace.
func withGrace(rawURL string, grace time.Duration) string {
	base, query, _ := strings.Cut(rawURL, "?")
	options, _ := url.ParseQuery(query) // no error: the URL has been parsed before
	options.Set("grace", grace.String())
	return base + "?" + options.Encode()
}

// clearWith opens a store, clears an election, or everything, and closes the store.
func clearWith(ctx context.Context, open func(context.Context, DialFunc) (store.Store, error), election string) error {
	st, err := open(ctx, nil)
	if err != nil {
		return err
	}
	defer st.Close()
	return st.Clear(ctx, election)
}
