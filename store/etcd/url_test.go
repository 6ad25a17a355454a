package etcd_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// All parts of a URL reach their settings: endpoints, prefix, TTL, grace.
func TestURL(t *testing.T) {
	t.Parallel()
	election := newElection()
	client := operator(t)
	server := sharedServer(t).Addrs()[0]
	st := openURL(t, "etcd://127.0.0.1:1,"+server+"/a%20b/"+election+"?ttl=40s&grace=7s")
	b := castFirst(t, st, "e", "own")
	list := keys(t, client, "a b/"+election+"/e/_ballots/")
	require.Len(t, list, 1)
	resp, err := client.Get(soon(t), list[0])
	require.NoError(t, err)
	require.EqualValues(t, b.Token(), resp.Kvs[0].CreateRevision)
	renewal := b.Lease().Last()
	require.Equal(t, 33*time.Second, renewal.Deadline.Sub(renewal.Sent))
	require.NoError(t, st.Close())
	require.Empty(t, keys(t, client, "a b/"+election))

	// The defaults.
	b = castFirst(t, openURL(t, "etcd://"+server), election, "own")
	require.Len(t, keys(t, client, "leadership/"+election+"/_ballots/"), 1)
	renewal = b.Lease().Last()
	require.Equal(t, (10*time.Second - 10*time.Second/3), renewal.Deadline.Sub(renewal.Sent))
}

// User and password reach their settings, whatever the password is read from.
func TestURLPassword(t *testing.T) {
	server, _ := guarded(t)
	user(t, server, "ann")
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
	t.Setenv("ETCD_TEST_PASSWORD", secret)
	for _, raw := range []string{
		"etcd://ann:s3cret%3A%20pass%2Fword@" + server.Addrs()[0],
		"etcd://ann@" + server.Addrs()[0] + "?passwordfile=" + file,
		"etcd://ann@" + server.Addrs()[0] + "?passwordenv=ETCD_TEST_PASSWORD",
	} {
		castFirst(t, openURL(t, raw), newElection(), "own")
	}
}

// A URL that can't be used is refused at once. The error names the option and its value, without the password.
func TestURLIsChecked(t *testing.T) {
	t.Parallel()
	for raw, parts := range map[string][]string{
		"etcd:///a":                    {"endpoints"},
		"etcd://":                      {"endpoints"},
		"etcd://a?ttl=1500ms":          {"ttl", "1.5s"},
		"etcd://a?ttl=2s&grace=1s":     {"grace", "1s", "2s"},
		"etcd://a?tll=3s":              {"tll", "ttl", "grace"},
		"etcd://a?cacert=b":            {"cacert", "etcd+tls://"},
		"etcd+tls://a?cacert=/nowhere": {"cacert", "/nowhere"},
		"etcd://ann@a":                 {"user", "no password", "no password"},
		"etcd://ann:secret@a?ttl=x":    {"ttl", "x"},
		"etcd://ann:secret@a:b":        {"host 1"},
		"etcd+ssl://a":                 {"etcd+ssl", "etcd+tls"},
	} {
		t.Run(raw, func(t *testing.T) {
			_, err := store.Open(t.Context(), raw, nil)
			require.ErrorIs(t, err, store.ErrInvalid)
			for _, part := range parts {
				require.ErrorContains(t, err, part)
			}
			require.NotContains(t, err.Error(), "secret")
		})
	}
}
