package zookeeper_test

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// newTLSServer starts a server that speaks TLS on a port of its own, and wants to see a certificate.
func newTLSServer(t *testing.T, files testserver.Certificates) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr = listener.Addr().String()
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	// The usual class path lacks what TLS needs.
	var netty []string
	for _, part := range []string{"buffer", "codec", "common", "handler", "resolver", "transport", "transport-native-unix-common"} {
		netty = append(netty, "/usr/share/java/netty-"+part+".jar")
	}
	testserver.NewZooKeeper(t, testserver.ZooKeeperConfig{
		Java: []string{"-Xbootclasspath/a:" + strings.Join(netty, ":")},
		Extra: map[string]string{
			"maxSessionTimeout":       "60000",
			"serverCnxnFactory":       "org.apache.zookeeper.server.NettyServerCnxnFactory",
			"secureClientPort":        port,
			"secureClientPortAddress": "127.0.0.1",
			"ssl.keyStore.location":   files.Server,
			"ssl.trustStore.location": files.CACert,
			"ssl.clientAuth":          "need",
		},
	})
	return addr
}

func TestTLS(t *testing.T) {
	t.Parallel()
	files, other := testserver.NewCertificates(t), testserver.NewCertificates(t)
	addr := newTLSServer(t, files)
	ours := url.Values{
		"ttl": {long.String()}, "cacert": {files.CACert}, "cert": {files.ClientCert}, "key": {files.ClientKey},
	}
	with := func(changes ...string) string { // name and value in turn
		options := maps.Clone(ours)
		for i := 0; i < len(changes); i += 2 {
			if options.Set(changes[i], changes[i+1]); changes[i+1] == "" {
				options.Del(changes[i])
			}
		}
		return fmt.Sprintf("zookeeper+tls://%s/?%s", addr, options.Encode())
	}

	t.Run("a whole election", func(t *testing.T) {
		election := newElection()
		a := contend(t, openURL(t, with("servername", "localhost")), election, "a")
		receive(t, a.Terms, "a leads")
		b := contend(t, openURL(t, with()), election, "b") // by the address
		oneLeader(t, a, b)
		eventually(t, func() bool {
			ballots, err := b.Store.Ballots(soon(t), election)
			return err == nil && len(ballots) == 2
		}, "b stands")
		a.Resign()
		receive(t, b.Terms, "b leads")
		a.End()
	})

	t.Run("a lifeline", func(t *testing.T) {
		for _, place := range []string{storetest.ServeLifeline(t), "self"} {
			storetest.Lifeline(t, with(), place)
		}
	})

	// The connection can't be made, ever: the Error hook must give the reason, soon after the TTL.
	ours.Set("ttl", ttl.String())
	for name, c := range map[string]struct{ url, reason string }{
		"another authority":        {with("cacert", other.CACert), "certificate signed by unknown authority"},
		"the system's authorities": {with("cacert", ""), "certificate signed by unknown authority"},
		"another name":             {with("servername", "other.example"), "not other.example"},
		"a stranger's certificate": {with("cert", other.ClientCert, "key", other.ClientKey), "certificate"},
		"no certificate":           {with("cert", "", "key", ""), "certificate"},
		"TLS where there is none": {
			strings.Replace(with(), addr, sharedServer(t).Addrs()[0], 1), "the scheme has to be zookeeper",
		},
		"no TLS": {"zookeeper://" + addr + "/?ttl=2s", "the scheme has to be zookeeper+tls"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			candidate := contend(t, openURL(t, c.url), newElection(), "own")
			eventually(t, func() bool {
				return slices.ContainsFunc(candidate.Errors(), func(err error) bool {
					return errors.Is(err, store.ErrUnavailable) && strings.Contains(err.Error(), c.reason) &&
						strings.Contains(err.Error(), strings.TrimSuffix(c.url[:strings.Index(c.url, "?")], "/"))
				})
			}, "an error that says %q", c.reason)
		})
	}
}
