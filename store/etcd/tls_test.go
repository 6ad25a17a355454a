package etcd

import (
	"net/url"
	"regexp"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// tlsURL is the URL of a server with TLS, the TTL, and further options.
func tlsURL(server *testserver.Etcd, ttl time.Duration, options map[string]string) string {
	q := url.Values{"ttl": {ttl.String()}}
	for name, value := range options {
		q.Set(name, value)
	}
	return "etcd+tls://" + server.Addrs()[0] + "/tls?" + q.Encode()
}

// TLS and mutual TLS, by the options of the URL.
func TestTLS(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]*testserver.Etcd{"server": sharedTLS(t), "mutual": sharedMutual(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			election, options := newElection(), map[string]string{"cacert": server.CACert}
			if name == "mutual" {
				options["cert"], options["key"] = server.ClientCert, server.ClientKey
			}
			first := contend(t, openAt(t, tlsURL(server, long, options)), election, "first")
			receive(t, first.Terms, "the first leads")
			options["servername"] = "localhost"
			second := contend(t, openAt(t, tlsURL(server, long, options)), election, "second")
			first.End()
			receive(t, second.Terms, "the second leads")
		})
	}
}

// If the TLS handshake fails, a campaign soon reports why, and with which server.
func TestTLSMismatch(t *testing.T) {
	t.Parallel()
	const limit = 5 * time.Second // max(2 TTL, 5 s)
	plain, secured, mutual := sharedServer(t), sharedTLS(t), sharedMutual(t)
	for name, c := range map[string]struct{ url, why string }{
		"plain client, TLS server":   {"etcd://" + secured.Addrs()[0] + "/tls?ttl=2s", `the scheme has to be etcd\+tls`},
		"TLS client, plain server":   {tlsURL(plain, shortest, map[string]string{"cacert": secured.CACert}), "the scheme has to be etcd( |$)"},
		"unknown authority":          {tlsURL(secured, shortest, map[string]string{"cacert": mutual.CACert}), "unknown authority|verify"},
		"the system's authorities":   {tlsURL(secured, shortest, nil), "unknown authority|verify|not trusted"},
		"another name":               {tlsURL(secured, shortest, map[string]string{"cacert": secured.CACert, "servername": "example.org"}), "example.org"},
		"no certificate":             {tlsURL(mutual, shortest, map[string]string{"cacert": mutual.CACert}), "certificate required|bad certificate"},
		"certificate of another one": {tlsURL(mutual, shortest, map[string]string{"cacert": mutual.CACert, "cert": secured.ClientCert, "key": secured.ClientKey}), "certificate"},
	} {
		users := map[string]string{"": ""}
		if name == "plain client, TLS server" || name == "no certificate" || name == "another name" {
			users[", with a user"] = "user:secret@"
		}
		for user, prefix := range users {
			t.Run(name+user, func(t *testing.T) {
				t.Parallel()
				u, err := url.Parse(c.url)
				require.NoError(t, err)
				st := openAt(t, u.Scheme+"://"+prefix+u.Host+u.Path+"?"+u.RawQuery)
				meter := stall.Watch(t)
				start := time.Now()
				for again := true; again; {
					_, err = st.Cast(soon(t), "a", "x")
					require.ErrorIs(t, err, store.ErrUnavailable)
					said := regexp.MustCompile(c.why).MatchString(err.Error())
					again = !said && meter.Stalled() > limit/10 && time.Since(start) < 2*limit+meter.Stalled()
				}
				require.Regexp(t, c.why, err.Error(), "%v", meter)
				require.Contains(t, err.Error(), u.Scheme+"://"+u.Host)
				require.NotContains(t, err.Error(), "secret")
				require.Less(t, time.Since(start), 3*limit+meter.Stalled(), "the limit twice, and once more for a server that is starved; %v", meter)
			})
		}
	}
}
