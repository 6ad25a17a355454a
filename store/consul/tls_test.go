package consul_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func TestTLS(t *testing.T) {
	srv := testserver.NewConsul(t, testserver.ConsulConfig{TLS: testserver.MutualTLS})
	other := testserver.NewConsul(t, testserver.ConsulConfig{TLS: testserver.MutualTLS})
	with := func(changes ...string) string { // name and value in turn
		options := url.Values{"ttl": {"10s"}, "cacert": {srv.CACert}, "cert": {srv.ClientCert}, "key": {srv.ClientKey}}
		for i := 0; i < len(changes); i += 2 {
			if options.Set(changes[i], changes[i+1]); changes[i+1] == "" {
				options.Del(changes[i])
			}
		}
		return "consul+tls://" + srv.Addrs()[0] + "/?" + options.Encode()
	}
	t.Run("a whole election", func(t *testing.T) {
		election := newElection()
		first, second := castFirst(t, openURL(t, with()), election, "1"), cast(t, openURL(t, with("ttl", "1s")), election, "2")
		acknowledge(t, first, "1")
		waiting(t, second)
		require.NoError(t, first.Withdraw(soon(t)))
		require.NoError(t, second.Wait(soon(t)))
		acknowledge(t, second, "2")
	})
	// The connection can't be made, ever: the error must soon say why.
	for name, c := range map[string]struct{ url, reason string }{
		"another authority":        {with("cacert", other.CACert), "certificate signed by unknown authority"},
		"another name":             {with("servername", "other.example"), "other.example"},
		"a stranger's certificate": {with("cert", other.ClientCert, "key", other.ClientKey), "certificate"},
		"no certificate":           {with("cert", "", "key", ""), "certificate"},
		"no TLS":                   {"consul://" + srv.Addrs()[0], "consul+tls"},
		"TLS where there is none":  {"consul+tls://" + sharedServer(t).Addrs()[0], "the scheme has to be consul"},
		"something else":           {"consul://" + storetest.SilentServer(t), "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := openURL(t, c.url)
			began := time.Now()
			_, err := st.Cast(soon(t), newElection(), "own")
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.ErrorContains(t, err, c.reason)
			require.ErrorContains(t, err, strings.TrimRight(strings.SplitN(c.url, "?", 2)[0], "/"))
			if !strings.HasPrefix(name, "something") {
				require.Less(t, time.Since(began), 3*time.Second)
			}
		})
	}
}
