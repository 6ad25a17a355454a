package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

var schemesMade atomic.Uint64

// newScheme returns a scheme that no test has registered, also if the tests run several times in one process.
func newScheme() string { return fmt.Sprintf("test%d", schemesMade.Add(1)) }

// noStore is a store on which nothing is called.
type noStore struct{ store.Store }

func TestOpenHandsTheURLToTheAdapter(t *testing.T) {
	type key struct{}
	scheme, opened := newScheme(), &noStore{}
	store.Register(scheme, func(ctx context.Context, u *store.URL) (store.Store, error) {
		require.Equal(t, "value", ctx.Value(key{}), "the caller's context")
		require.Equal(t, scheme, u.Scheme)
		require.Equal(t, []string{"h1:1", "h2:2"}, u.Hosts)
		require.Equal(t, "10s", u.Option("ttl", ""))
		return opened, nil
	})
	st, err := store.Open(context.WithValue(t.Context(), key{}, "value"), strings.ToUpper(scheme)+"://h1:1,h2:2/p?ttl=10s", nil)
	require.NoError(t, err)
	require.Same(t, opened, st)
}

func TestOpenReturnsTheAdaptersError(t *testing.T) {
	scheme, failed := newScheme(), errors.New("failed")
	store.Register(scheme, func(context.Context, *store.URL) (store.Store, error) { return nil, failed })
	st, err := store.Open(t.Context(), scheme+"://h", nil)
	require.ErrorIs(t, err, failed)
	require.Nil(t, st)
}

func TestOpenRefusesAnUnknownScheme(t *testing.T) {
	known, unknown := newScheme(), newScheme()
	store.Register(known, func(context.Context, *store.URL) (store.Store, error) { return noStore{}, nil })
	_, err := store.Open(t.Context(), unknown+"://user:hunter2@h/", nil)
	require.ErrorIs(t, err, store.ErrInvalid)
	var field *store.FieldError
	require.ErrorAs(t, err, &field)
	require.Equal(t, "store scheme", field.Field)
	require.Equal(t, unknown, field.Value)
	require.ErrorContains(t, err, known, "what there is")
	require.NotContains(t, err.Error(), "hunter2")

	_, err = store.Open(t.Context(), strings.Repeat("x", 1<<20)+"://h/", nil)
	require.ErrorAs(t, err, &field)
	require.LessOrEqual(t, len(field.Value), 64+len("..."))
}

func TestOpenSaysWhatToImport(t *testing.T) {
	for _, scheme := range []string{"etcd", "etcd+tls"} {
		_, err := store.Open(t.Context(), scheme+"://h/", nil)
		require.ErrorContains(t, err, `import _ "github.com/go-leadership/leadership/store/etcd"`)
	}
}

// An address that was copied from etcd's or Consul's own settings begins with http or https.
func TestOpenSaysWhichSchemeToWrite(t *testing.T) {
	for scheme, want := range map[string]string{
		"http":  "etcd:// or consul://",
		"HTTPS": "etcd+tls:// or consul+tls://",
	} {
		_, err := store.Open(t.Context(), scheme+"://h/", nil)
		require.ErrorIs(t, err, store.ErrInvalid)
		require.ErrorContains(t, err, want)
	}
}

func TestOpenRefusesAWrongURL(t *testing.T) {
	scheme := newScheme()
	store.Register(scheme, func(context.Context, *store.URL) (store.Store, error) {
		require.Fail(t, "the adapter was asked")
		return nil, nil
	})
	for _, raw := range []string{"", "h:1", scheme + ":h", scheme + "://h:x", scheme + "://h?ttl=1s&ttl=2s"} {
		_, err := store.Open(t.Context(), raw, nil)
		require.ErrorIs(t, err, store.ErrInvalid, "%q", raw)
	}
}

func TestOpenWithACancelledContextOpensNothing(t *testing.T) {
	scheme := newScheme()
	store.Register(scheme, func(context.Context, *store.URL) (store.Store, error) {
		require.Fail(t, "the adapter was asked")
		return nil, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	st, err := store.Open(ctx, scheme+"://h", nil)
	require.ErrorIs(t, err, context.Canceled)
	require.Nil(t, st)
}

func TestRegisterTwicePanics(t *testing.T) {
	scheme := newScheme()
	open := func(context.Context, *store.URL) (store.Store, error) { return noStore{}, nil }
	store.Register(scheme, open)
	require.PanicsWithValue(t, "store: scheme nothing registered with a nil function", func() { store.Register("nothing", nil) })
	require.PanicsWithValue(t, "store: scheme "+scheme+" registered twice", func() { store.Register(scheme, open) })
	st, err := store.Open(t.Context(), scheme+"://h", nil)
	require.NoError(t, err, "the first registration stays, and nothing stays locked")
	require.NotNil(t, st)
}

// TestRegisterWhileOpening is for the race detector: plugins may register at any time.
func TestRegisterWhileOpening(t *testing.T) {
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			scheme := newScheme()
			store.Register(scheme, func(context.Context, *store.URL) (store.Store, error) { return noStore{}, nil })
			_, err := store.Open(context.Background(), scheme+"://h", nil)
			if err != nil {
				t.Error(err)
			}
			if _, err = store.Open(context.Background(), "unknown-"+scheme+"://h", nil); !errors.Is(err, store.ErrInvalid) {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestOptionsReachTheAdapter(t *testing.T) {
	scheme := newScheme()
	var got store.Options
	store.Register(scheme, func(_ context.Context, u *store.URL) (store.Store, error) {
		got = u.Options
		return noStore{}, nil
	})
	logger := slog.New(slog.DiscardHandler)
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, errors.ErrUnsupported }
	_, err := store.Open(t.Context(), scheme+"://h", &store.Options{Logger: logger, Dial: dial})
	require.NoError(t, err)
	require.Same(t, logger, got.Logger)
	_, err = got.Dial(t.Context(), "tcp", "h:1")
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestOpenURLMadeByHand(t *testing.T) {
	scheme := newScheme()
	store.Register(scheme, func(_ context.Context, u *store.URL) (store.Store, error) {
		require.Equal(t, "none", u.Option("name", "none"))
		ttl, grace := u.Session()
		require.Equal(t, 10*time.Second, ttl)
		require.Equal(t, ttl/3, grace)
		return noStore{}, u.Check()
	})
	_, err := store.OpenURL(t.Context(), &store.URL{Scheme: scheme, Hosts: []string{"h:1"}})
	require.NoError(t, err)
	_, err = store.OpenURL(t.Context(), &store.URL{})
	require.ErrorIs(t, err, store.ErrInvalid)
	_, err = store.OpenURL(t.Context(), nil)
	require.ErrorIs(t, err, store.ErrInvalid)
}
