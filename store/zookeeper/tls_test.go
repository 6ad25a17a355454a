package zookeeper_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// authority is a certificate authority in a directory of PEM files.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.issue(t, name, nil)
	return a
}

// file returns the path of one of the authority's files: the certificate of name, or with ending "key" its key, or
// with ending "pem" both.
func (a *authority) file(name, ending string) string { return filepath.Join(a.dir, name+"."+ending) }

// issue writes a certificate for a name, with its key. The first is the authority's own.
func (a *authority) issue(t *testing.T, name string, ips []net.IP, names ...string) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, IPAddresses: ips, DNSNames: names,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		template.IsCA, template.KeyUsage, template.ExtKeyUsage = true, x509.KeyUsageCertSign, nil
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	require.NoError(t, os.WriteFile(a.file(name, "crt"), certPEM, 0o600))
	require.NoError(t, os.WriteFile(a.file(name, "key"), keyPEM, 0o600))
	require.NoError(t, os.WriteFile(a.file(name, "pem"), append(keyPEM, certPEM...), 0o600))
	return cert, key
}

// newTLSServer starts a server that speaks TLS on a port of its own, and wants to see a certificate.
func newTLSServer(t *testing.T, ca *authority) (addr string) {
	t.Helper()
	ca.issue(t, "server", []net.IP{net.IPv4(127, 0, 0, 1)}, "zookeeper.example")
	ca.issue(t, "client", nil, "client.example")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr = listener.Addr().String()
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	require.NoError(t, os.Rename(ca.file("ca", "crt"), ca.file("ca-only", "pem"))) // the server goes by the ending
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
			"ssl.keyStore.location":   ca.file("server", "pem"),
			"ssl.trustStore.location": ca.file("ca-only", "pem"),
			"ssl.clientAuth":          "need",
		},
	})
	return addr
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	addr := newTLSServer(t, ca)
	ours := url.Values{
		"ttl": {long.String()}, "cacert": {ca.file("ca-only", "pem")},
		"cert": {ca.file("client", "crt")}, "key": {ca.file("client", "key")},
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
		a := contend(t, openURL(t, with("servername", "zookeeper.example")), election, "a")
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
	other := newAuthority(t, "ca")
	other.issue(t, "client", nil, "client.example")
	for name, c := range map[string]struct{ url, reason string }{
		"another authority":        {with("cacert", other.file("ca", "crt")), "certificate signed by unknown authority"},
		"the system's authorities": {with("cacert", ""), "certificate signed by unknown authority"},
		"another name":             {with("servername", "other.example"), "not other.example"},
		"a stranger's certificate": {
			with("cert", other.file("client", "crt"), "key", other.file("client", "key")), "certificate",
		},
		"no certificate": {with("cert", "", "key", ""), "certificate"},
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
