package postgres_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	srv := testserver.NewPostgres(t, testserver.PostgresConfig{TLS: testserver.MutualTLS})
	other := testserver.NewPostgres(t, testserver.PostgresConfig{TLS: testserver.MutualTLS})
	with := func(changes ...string) string { // name and value in turn
		options := url.Values{"ttl": {"3s"}, "cacert": {srv.CACert}, "cert": {srv.ClientCert}, "key": {srv.ClientKey}}
		for i := 0; i < len(changes); i += 2 {
			if options.Set(changes[i], changes[i+1]); changes[i+1] == "" {
				options.Del(changes[i])
			}
		}
		return "postgres+tls://" + testserver.ClientName + "@" + srv.Addrs()[0] + "/postgres?" + options.Encode()
	}
	t.Run("a whole election", func(t *testing.T) {
		election := newElection()
		first, second := castFirst(t, storetest.OpenURL(t, with()), election, "1"), cast(t, storetest.OpenURL(t, with()), election, "2")
		acknowledge(t, first, "1")
		storetest.Waiting(t, second)
		require.NoError(t, first.Withdraw(soon(t)))
		require.NoError(t, second.Wait(soon(t)))
		acknowledge(t, second, "2")
		for end := time.Now().Add(2 * ttl); time.Now().Before(end); time.Sleep(ttl / 20) { // waits for notifications are cut short
			require.NoError(t, second.Err())
		}
	})
	plain := testserver.PostgresUser + "@" + sharedServer(t).Addrs()[0] + "/postgres?ttl=3s"
	// The connection can't be made, ever: the error must soon say why.
	for name, c := range map[string]struct {
		url, reason string
		is          error
	}{
		"another authority":        {with("cacert", other.CACert), "certificate signed by unknown authority", store.ErrUnavailable},
		"another name":             {with("servername", "other.example"), "other.example", store.ErrUnavailable},
		"a stranger's certificate": {with("cert", other.ClientCert, "key", other.ClientKey), "127.0.0.1", store.ErrUnavailable}, // reset, or told
		"no certificate":           {with("cert", "", "key", ""), "certificate", store.ErrDenied},
		"no TLS":                   {"postgres://" + testserver.ClientName + "@" + srv.Addrs()[0] + "/postgres?ttl=3s", "postgres+tls", store.ErrDenied},
		"TLS where there is none":  {"postgres+tls://" + plain, "the scheme has to be postgres", store.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := storetest.OpenURL(t, c.url).Cast(within(t, 2*ttl), newElection(), "own")
			require.ErrorIs(t, err, c.is)
			require.ErrorContains(t, err, c.reason)
		})
	}
}

// TestSCRAM: the right password is taken, and a wrong one is refused for good, without being shown.
func TestSCRAM(t *testing.T) {
	t.Parallel()
	srv := testserver.NewPostgres(t, testserver.PostgresConfig{SCRAM: true})
	at := func(password string) string {
		return "postgres://" + testserver.PostgresUser + ":" + password + "@" + srv.Addrs()[0] + "/postgres?ttl=3s"
	}
	castFirst(t, storetest.OpenURL(t, at(testserver.PostgresPassword)), newElection(), "own")
	_, err := storetest.OpenURL(t, at(secret)).Cast(soon(t), newElection(), "own")
	require.ErrorIs(t, err, store.ErrDenied)
	require.NotContains(t, err.Error(), secret)
}

// TestSlowLinkWithSCRAMAndTLS: a candidate leads and keeps leading at round trips of an eighth of the TTL, although a
// new connection takes seven of them.
func TestSlowLinkWithSCRAMAndTLS(t *testing.T) {
	t.Parallel()
	srv := testserver.NewPostgres(t, testserver.PostgresConfig{SCRAM: true, TLS: testserver.ServerTLS})
	network := conformance.NewNetwork()
	network.Delay(ttl / 16)
	u, err := store.ParseURL("postgres+tls://" + testserver.PostgresUser + ":" + testserver.PostgresPassword + "@" + srv.Addrs()[0] +
		"/postgres?ttl=" + ttl.String() + "&cacert=" + srv.CACert)
	require.NoError(t, err)
	u.Dial = network.Dial
	st, err := store.OpenURL(soon(t), u)
	require.NoError(t, err)
	defer st.Close()
	b := castFirst(t, st, newElection(), "own")
	for end := time.Now().Add(4 * ttl); time.Now().Before(end); time.Sleep(ttl / 20) {
		require.NoError(t, b.Err())
		require.True(t, st.(interface{ Worked() bool }).Worked())
	}
}
