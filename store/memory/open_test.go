package memory_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
)

const (
	ttl   = 10 * time.Second // the default, as the next
	grace = ttl / 3
)

// lead casts a ballot in election "x" and acknowledges.
func lead(t *testing.T, st store.Store, value string) store.Ballot {
	t.Helper()
	b := storetest.CastFirst(t, st, "x", value)
	storetest.Acknowledge(t, b, value)
	return b
}

// leader returns who leads election "x".
func leader(t *testing.T, st store.Store) store.Leader {
	t.Helper()
	l, err := storetest.Leader(t.Context(), st, "x", nil)
	require.NoError(t, err)
	return l
}

// requireLease checks that the store's leases are valid for that long from the sending of a renewal.
func requireLease(t *testing.T, want time.Duration, st store.Store) {
	t.Helper()
	ballot, err := st.Cast(t.Context(), "x", "v")
	require.NoError(t, err)
	last := ballot.Lease().Last()
	require.Equal(t, want, last.Deadline.Sub(last.Sent))
}

func TestConfig(t *testing.T) {
	for name, c := range map[string]struct {
		config *memory.Config
		lease  time.Duration // TTL - grace
	}{
		"nil":      {nil, ttl - grace},
		"zero":     {&memory.Config{}, ttl - grace},
		"ttl":      {&memory.Config{TTL: time.Minute}, 40 * time.Second},
		"shortest": {&memory.Config{TTL: time.Millisecond}, time.Millisecond - time.Millisecond/3},
		"grace":    {&memory.Config{Grace: time.Second}, 9 * time.Second},
		"both":     {&memory.Config{TTL: time.Hour, Grace: 5 * time.Minute}, 55 * time.Minute},
		"most":     {&memory.Config{Grace: ttl/2 - 1}, ttl/2 + 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, err := memory.Open(memory.NewService(), c.config)
				require.NoError(t, err)
				defer st.Close()
				requireLease(t, c.lease, st)
			})
		})
	}
}

// TestConfigIsRefused at once, with the field and both values, and nothing is opened.
func TestConfigIsRefused(t *testing.T) {
	for want, config := range map[string]memory.Config{
		`invalid ttl "-1s": not a multiple of 1ms from 1ms to 24h0m0s`:            {TTL: -time.Second},
		`invalid ttl "1ns": not a multiple of 1ms from 1ms to 24h0m0s`:            {TTL: 1},
		`invalid ttl "1.5ms": not a multiple of 1ms from 1ms to 24h0m0s`:          {TTL: 1500 * time.Microsecond},
		`invalid ttl "24h0m0.001s": not a multiple of 1ms from 1ms to 24h0m0s`:    {TTL: 24*time.Hour + time.Millisecond},
		`invalid grace "-1ns": not from a twelfth to below half of the ttl 10s`:   {Grace: -1},
		`invalid grace "999ms": not from a twelfth to below half of the ttl 12s`:  {TTL: 12 * time.Second, Grace: 999 * time.Millisecond},
		`invalid grace "6s": not from a twelfth to below half of the ttl 10s`:     {Grace: 6 * time.Second},
		`invalid grace "10s": not from a twelfth to below half of the ttl 10s`:    {Grace: 10 * time.Second},
		`invalid grace "1s": not from a twelfth to below half of the ttl 1s`:      {TTL: time.Second, Grace: time.Second},
		`invalid grace "600ms": not from a twelfth to below half of the ttl 1s`:   {TTL: time.Second, Grace: 600 * time.Millisecond},
		`invalid grace "-1h0m0s": not from a twelfth to below half of the ttl 2s`: {TTL: 2 * time.Second, Grace: -time.Hour},
	} {
		st, err := memory.Open(memory.NewService(), &config)
		require.Nil(t, st)
		require.ErrorIs(t, err, store.ErrInvalid)
		require.True(t, store.Permanent(err))
		require.EqualError(t, err, want)
	}
}

// TestConfigIsCopied: changing the Config later has no effect.
func TestConfigIsCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := &memory.Config{TTL: time.Minute}
		st, err := memory.Open(memory.NewService(), config)
		require.NoError(t, err)
		defer st.Close()
		config.TTL = time.Second
		requireLease(t, 40*time.Second, st)
	})
}

var urlsMade atomic.Uint64

// newURL returns the URL of a service that no other test uses. It lives as long as the process.
func newURL() string { return fmt.Sprintf("memory://test-%d", urlsMade.Add(1)) }

// TestURLNamesAServiceThatTheProcessShares, by host and path; the options are each store's own.
func TestURLNamesAServiceThatTheProcessShares(t *testing.T) {
	url := newURL()
	lead(t, storetest.OpenURL(t, url), "a")
	for _, same := range []string{url, url + "/", url + "?ttl=5s", url + "/?grace=1s&ttl=5s", "MEMORY" + url[len("memory"):]} {
		require.Equal(t, "a", leader(t, storetest.OpenURL(t, same)).Value, "%q", same)
	}
	for _, other := range []string{url + "x", url + "/path", newURL()} {
		require.Zero(t, leader(t, storetest.OpenURL(t, other)), "%q", other)
	}
	alone, err := memory.Open(memory.NewService(), nil)
	require.NoError(t, err)
	defer alone.Close()
	require.Zero(t, leader(t, alone))
}

// TestURLServiceOutlivesItsStores: tokens go on growing.
func TestURLServiceOutlivesItsStores(t *testing.T) {
	url := newURL()
	st := storetest.OpenURL(t, url)
	token := lead(t, st, "a").Token()
	require.NoError(t, st.Close())
	st = storetest.OpenURL(t, url)
	require.Empty(t, storetest.Values(t, st, "x"))
	require.Greater(t, lead(t, st, "b").Token(), token)
}

func TestURLOptions(t *testing.T) {
	requireLease(t, ttl-grace, storetest.OpenURL(t, newURL()))
	requireLease(t, 40*time.Second, storetest.OpenURL(t, newURL()+"?ttl=1m"))
	requireLease(t, 55*time.Second, storetest.OpenURL(t, newURL()+"?ttl=1m&grace=5s"))
	requireLease(t, 9*time.Second, storetest.OpenURL(t, newURL()+"/some/path?grace=1s"))
	storetest.OpenURL(t, "memory://")
}

func TestURLIsRefused(t *testing.T) {
	for query, want := range map[string]string{
		"?ttl=-1s":          `invalid ttl "-1s": not a multiple of 1ms from 1ms`,
		"?ttl=1us":          `invalid ttl "1µs": not a multiple of 1ms from 1ms`,
		"?ttl=10":           `invalid ttl "10": not a duration such as "10s"`,
		"?ttl=":             `invalid ttl: not a duration such as "10s"`,
		"?ttl=1s&grace=1s":  `invalid grace "1s": not from a twelfth to below half of the ttl 1s`,
		"?grace=-1s":        `invalid grace "-1s"`,
		"?grace=x":          `invalid grace "x": not a duration such as "10s"`,
		"?tls=1":            `unknown option "tls"; it knows grace, ttl`,
		"?passwordenv=":     "passwordenv",
		"?ttl=x&grace=y&z=": `invalid ttl "x"`,
		"?ttl=1s&ttl=2s":    `option "ttl" is given 2 times`,
	} {
		_, err := store.Open(t.Context(), newURL()+query, nil)
		require.ErrorIs(t, err, store.ErrInvalid, "%q", query)
		require.ErrorContains(t, err, want, "%q", query)
	}
}

// TestURLWithATTLOfZeroIsRefused: zero in a URL does not stand for the default.
func TestURLWithATTLOfZeroIsRefused(t *testing.T) {
	for _, query := range []string{"?ttl=0", "?ttl=0s", "?ttl=0s&grace=1s"} {
		st, err := store.Open(t.Context(), newURL()+query, nil)
		if err == nil {
			t.Cleanup(func() { _ = st.Close() })
		}
		require.ErrorIs(t, err, store.ErrInvalid, "%q", query)
		require.ErrorContains(t, err, "ttl", "%q", query)
	}
}

func TestURLTakesNoUserOrPassword(t *testing.T) {
	for _, user := range []string{"alice", "alice:hunter2", ":hunter2"} {
		_, err := store.Open(t.Context(), "memory://"+user+"@name?ttl=5s", nil)
		require.ErrorIs(t, err, store.ErrInvalid)
		require.ErrorContains(t, err, "user or password")
		require.NotContains(t, err.Error(), "hunter2")
		require.NotContains(t, err.Error(), "alice")
	}
}

func TestErrorsNameTheStoreByItsURL(t *testing.T) {
	url := newURL()
	st := storetest.OpenURL(t, url+"/a%20b?ttl=5s")
	require.NoError(t, st.Close())
	_, err := st.Cast(context.Background(), "x", "v")
	require.EqualError(t, err, `cast in election "x" on `+url+`/a b: store is closed`)
}

// TestOpenOnNothing: a service is needed; its zero value is one.
func TestOpenOnNothing(t *testing.T) {
	_, err := memory.Open(nil, nil)
	require.ErrorIs(t, err, store.ErrInvalid)
	require.EqualError(t, err, "invalid service: it is nil")

	st, err := memory.Open(&memory.Service{}, nil)
	require.NoError(t, err)
	b, err := st.Cast(t.Context(), "x", "v")
	require.NoError(t, err)
	require.NoError(t, b.Wait(t.Context()))
	require.Equal(t, "memory://", st.String())
	require.NoError(t, st.Close())
}
