package all_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/all"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

const secret = "s3cret/: @"

// An option has the same meaning in all stores that have it. Its wrong values are refused in the same way, before
// anything is sent.
func TestOptionsAreRefusedAlike(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(file, []byte("text"), 0o600))
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			user := "ann@"
			if kind == "consul" || kind == "memory" {
				user = ""
			}
			secret := func(option string) string {
				if kind == "memory" { // knows no passwords
					return kind + " URL"
				}
				return option
			}
			for rest, field := range map[string]string{
				user + "h?ttl=0s":                          "ttl",
				user + "h?ttl=-10s":                        "ttl",
				user + "h?ttl=10":                          "ttl",
				user + "h?ttl=":                            "ttl",
				user + "h?ttl=soon":                        "ttl",
				user + "h?grace=0s":                        "grace",
				user + "h?grace=-1s":                       "grace",
				user + "h?ttl=10s&grace=5s":                "grace", // half of it
				user + "h?ttl=10s&ttl=10s":                 kind + " URL",
				user + "h?tll=10s":                         kind + " URL",
				user + "h?servername=a":                    kind + " URL", // TLS, without TLS
				user + "h?cacert=" + file:                  kind + " URL",
				user + "h?passwordenv=NO_SUCH_VARIABLE":    secret("passwordenv"),
				user + "h?passwordfile=" + file + ".none":  secret("passwordfile"),
				":pw@h?passwordfile=" + file:               kind + " URL", // twice
				"h?passwordenv=HOME&passwordfile=" + file:  kind + " URL",
				user + "h?cert=" + file + "&key=" + file:   kind + " URL",
				user + "h\x00":                             kind + " URL",
				user + "h?ttl=10s#":                        kind + " URL",
				user + "h?root=/a&dc=b&user=c&password=d&": kind + " URL", // another store's, and unknown ones
			} {
				_, err := store.Open(soon(t), kind+"://"+rest, nil)
				requireInvalid(t, err, field)
			}
		})
	}
	for _, kind := range []string{"zookeeper", "etcd", "consul"} {
		t.Run(kind+"+tls", func(t *testing.T) {
			for options, field := range map[string]string{
				"ttl=12s&grace=999ms":             "grace", // a twelfth
				"cacert=" + file + ".none":        "cacert",
				"cacert=" + file:                  "cacert",
				"cert=" + file:                    "cert", // without its key
				"key=" + file:                     "key",
				"cert=" + file + "&key=" + file:   "cert",
				"ttl=0s&servername=localhost":     "ttl",
				"servername=a&servername=b":       kind + "+tls URL",
				"insecure=true":                   kind + "+tls URL",
				"cacert=" + file + "&ttl=10s&x=y": "cacert",
			} {
				_, err := store.Open(soon(t), kind+"+tls://h?"+options, nil)
				requireInvalid(t, err, field)
			}
		})
	}
	_, err := store.Open(soon(t), "memory+tls://h", nil)
	require.ErrorIs(t, err, store.ErrInvalid)
}

// All options that the stores have in common, together, without TLS and with it. TestTLS of each store's package, and
// the tests of its permissions, show that the right certificate, name and password are used.
func TestOptionsAreAccepted(t *testing.T) {
	cert, key := certificate(t)
	password := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(password, []byte(secret+"\n"), 0o600))
	t.Setenv("STORE_ALL_PASSWORD", secret)
	for _, kind := range []string{"zookeeper", "etcd", "consul"} {
		user := map[string]string{"zookeeper": "ann@", "etcd": "ann@"}[kind]
		for _, from := range []string{"passwordenv=STORE_ALL_PASSWORD", "passwordfile=" + password} {
			raw := kind + "://" + user + address(t, kind) + "/?ttl=9s&grace=2s&" + from
			if kind == "zookeeper" { // where no other user stands
				raw += "&root=/options"
			}
			cast(t, open(t, raw, nil), newElection(), "own")
			raw = kind + "+tls://" + user + "h/?ttl=9s&grace=2s&cacert=" + cert + "&cert=" + cert + "&key=" + key +
				"&servername=name&" + from
			open(t, raw, nil)
		}
	}
	for _, from := range []string{"passwordenv=STORE_ALL_PASSWORD", "passwordfile=" + password} {
		_, err := store.Open(soon(t), "memory://h?"+from, nil)
		requireInvalid(t, err, "memory URL")
		require.NotContains(t, err.Error(), secret)
	}
}

// The lease lasts for the TTL less the grace, from when a renewal was sent. ZooKeeper counts from the renewal before,
// which was sent TTL/6 earlier, except at first.
func TestTTLAndGrace(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			for options, lasts := range map[string]time.Duration{
				"ttl=9s":          6 * time.Second,
				"ttl=9s&grace=2s": 7 * time.Second,
				"grace=3s":        7 * time.Second,
			} {
				b := cast(t, open(t, on(t, kind, options), nil), newElection(), "own")
				last := b.Lease().Last()
				if kind != "zookeeper" {
					require.Equal(t, lasts, last.Deadline.Sub(last.Sent), options)
					continue
				}
				eventually(t, func() bool {
					last := b.Lease().Last()
					d := last.Deadline.Sub(last.Sent)
					return d <= lasts && d > lasts-2*time.Second
				}, "a lease with "+options)
			}
		})
	}
}

// certificate returns the files of a certificate and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	file := func(name, kind string, bytes []byte) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600))
		return path
	}
	return file("cert.pem", "CERTIFICATE", der), file("key.pem", "PRIVATE KEY", pkcs8)
}

// A store, its settings and its parts never show the password when they are printed.
func TestPrintedWithoutPassword(t *testing.T) {
	t.Parallel()
	const password = "hUnter2"
	things := []any{
		zookeeper.Config{User: "u", Password: password, Servers: []string{"u:" + password + "@h"}},
		etcd.Config{User: "u", Password: password, Endpoints: []string{"u:" + password + "@h"}},
		consul.Config{Token: password, Addresses: []string{"u:" + password + "@h"}},
	}
	for _, url := range []string{"zookeeper://u:" + password + "@127.0.0.1", "etcd://u:" + password + "@127.0.0.1", "consul://:" + password + "@127.0.0.1"} {
		st, err := store.Open(t.Context(), url, nil)
		require.NoError(t, err)
		defer st.Close()
		c, err := leadership.NewCandidate(st, "election", "value", nil)
		require.NoError(t, err)
		f, err := leadership.NewFollower(st, "election", nil)
		require.NoError(t, err)
		things = append(things, st, c, f)
	}
	for _, thing := range things {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			printed := fmt.Sprintf(verb, thing)
			require.NotContains(t, printed, password, "%s of %T", verb, thing)
			require.NotContains(t, printed, fmt.Sprintf("%x", password), "%s of %T", verb, thing)
			require.NotContains(t, fmt.Sprintf(verb, []any{thing}), password)
		}
	}
}
