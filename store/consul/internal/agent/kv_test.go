package agent

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

func TestPlain(t *testing.T) {
	for key, plain := range map[string]bool{
		"leadership/a-b_c.1/_ballots/0-1": true, "leadership/": true, "a,b?c&d=e": true,
		"a b": false, "ä": false, "a:b": false, "a%20b": false, "a..b": false, "../a": false,
	} {
		require.Equal(t, plain, Plain(key), key)
	}
}

// Of a key that agents might refuse in a path, a transaction tells the same as other keys' paths: also that it may not be read.
func TestReadsInTransactions(t *testing.T) {
	var text string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/v1/txn", r.URL.Path)
		require.True(t, r.URL.Query().Has("consistent"))
		_, _ = io.WriteString(w, text)
	}))
	defer srv.Close()
	c := newClientOf(t, srv.Listener.Addr().String())
	const exists, absent = `{"Results":[{"KV":{"Key":"ä/b","CreateIndex":3,"ModifyIndex":4}}]}`, `{"Results":[{"KV":{"Key":"ä/b"}}]}`

	text = exists
	read, err := c.Get(t.Context(), "ä/b")
	require.NoError(t, err)
	require.Equal(t, Read{Entry{Exists: true, Create: 3, Modify: 4}, 4}, read)

	text = `{"Results":[{"KV":{"Key":"ä/b/_c"}},{"KV":{"Key":"ä/b/_d/_e"}},{"KV":{"Key":"ä/a"}},{"KV":{"Key":"ä/"}}]}`
	list, err := c.List(t.Context(), "ä/")
	require.NoError(t, err)
	require.Len(t, list, 3)

	text = absent
	read, err = c.Get(t.Context(), "ä/b")
	require.NoError(t, err)
	require.False(t, read.Exists)

	text = `{"Results":[]}` // nothing may be read
	_, err = c.Get(t.Context(), "ä/b")
	require.ErrorIs(t, err, store.ErrDenied)
	_, err = c.List(t.Context(), "ä/")
	require.ErrorIs(t, err, store.ErrDenied)
}

// A Consul before 1.14.0 lacks a verb. The error says so, and callers don't take it for an answer about keys.
func TestConsulIsTooOld(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"Results":null,"Errors":[{"OpIndex":0,"What":"unknown KV verb \"get-or-empty\""}]}`)
	}))
	defer srv.Close()
	_, err := newClientOf(t, srv.Listener.Addr().String()).Commit(t.Context(), &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: "a"})
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "older than 1.14.0")
	require.Nil(t, RefusalIn(err))
}

// newClientOf returns a client of an agent at an address.
func newClientOf(t *testing.T, address string) *Client {
	t.Helper()
	given, err := api.NewClient(&api.Config{Address: address})
	require.NoError(t, err)
	life := adapter.NewLifecycle("consul", false, "")
	t.Cleanup(life.Stop)
	c, err := New(life, Config{Client: given, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return c
}
