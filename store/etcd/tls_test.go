package etcd_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
)

// tlsURL is the URL of a server with TLS and the options given.
func tlsURL(server *testserver.Etcd, options map[string]string) string {
	q := url.Values{"ttl": {"2s"}}
	for name, value := range options {
		q.Set(name, value)
	}
	return "etcd+tls://" + server.Addrs()[0] + "/tls?" + q.Encode()
}

// TLS and mutual TLS, by the options of the URL.
func TestTLS(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]testserver.TLS{"server": testserver.ServerTLS, "mutual": testserver.MutualTLS} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testserver.NewEtcd(t, testserver.EtcdConfig{TLS: mode, Extra: fast})
			options := map[string]string{"cacert": server.CACert}
			if mode == testserver.MutualTLS {
				options["cert"], options["key"] = server.ClientCert, server.ClientKey
			}
			first := contend(t, openURL(t, tlsURL(server, options)), "a", "first")
			receive(t, first.Terms, "the first leads")
			options["servername"] = "localhost"
			second := contend(t, openURL(t, tlsURL(server, options)), "a", "second")
			first.End()
			receive(t, second.Terms, "the second leads")
		})
	}
}

// If the TLS handshake fails, a campaign soon reports why, and with which server.
func TestTLSMismatch(t *testing.T) {
	t.Parallel()
	plain := sharedServer(t)
	secured := testserver.NewEtcd(t, testserver.EtcdConfig{TLS: testserver.ServerTLS, Extra: fast})
	mutual := testserver.NewEtcd(t, testserver.EtcdConfig{TLS: testserver.MutualTLS, Extra: fast})
	for name, c := range map[string]struct{ url, why string }{
		"plain client, TLS server":   {"etcd://" + secured.Addrs()[0] + "/tls?ttl=2s", `the scheme has to be etcd\+tls`},
		"TLS client, plain server":   {tlsURL(plain, map[string]string{"cacert": secured.CACert}), "the scheme has to be etcd( |$)"},
		"unknown authority":          {tlsURL(secured, map[string]string{"cacert": mutual.CACert}), "unknown authority|verify"},
		"the system's authorities":   {tlsURL(secured, nil), "unknown authority|verify|not trusted"},
		"another name":               {tlsURL(secured, map[string]string{"cacert": secured.CACert, "servername": "example.org"}), "example.org"},
		"no certificate":             {tlsURL(mutual, map[string]string{"cacert": mutual.CACert}), "certificate required|bad certificate"},
		"certificate of another one": {tlsURL(mutual, map[string]string{"cacert": mutual.CACert, "cert": secured.ClientCert, "key": secured.ClientKey}), "certificate"},
	} {
		for user, prefix := range map[string]string{"": "", ", with a user": "user:secret@"} {
			t.Run(name+user, func(t *testing.T) {
				t.Parallel()
				u, err := url.Parse(c.url)
				require.NoError(t, err)
				st := openURL(t, u.Scheme+"://"+prefix+u.Host+u.Path+"?"+u.RawQuery)
				start := time.Now()
				_, err = st.Cast(soon(t), "a", "x")
				if strings.Contains(fmt.Sprint(err), "broken pipe") { // the client was still writing when the server sent its alert
					_, err = st.Cast(soon(t), "a", "x")
				}
				require.ErrorIs(t, err, store.ErrUnavailable)
				require.Regexp(t, c.why, err.Error())
				require.Contains(t, err.Error(), u.Scheme+"://"+u.Host)
				require.NotContains(t, err.Error(), "secret")
				require.Less(t, time.Since(start), 15*time.Second, "within max(2 TTL, 5 s), perhaps twice, with what a busy machine adds")
			})
		}
	}
}

// Files that are not what they should be are refused at once.
func TestTLSFiles(t *testing.T) {
	t.Parallel()
	junk := filepath.Join(t.TempDir(), "junk.pem")
	require.NoError(t, os.WriteFile(junk, []byte("junk"), 0o600))
	for option, raw := range map[string]string{
		"cacert": "etcd+tls://a/b?cacert=" + junk,
		"cert":   "etcd+tls://a/b?cert=" + junk + "&key=" + junk,
	} {
		_, err := store.Open(t.Context(), raw, nil)
		requireInvalid(t, err, option, junk)
	}
	_, err := store.Open(t.Context(), "etcd://a/b?cacert="+junk, nil)
	require.ErrorIs(t, err, store.ErrInvalid)
	require.ErrorContains(t, err, "cacert")
}
