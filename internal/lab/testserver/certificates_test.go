package testserver

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	for _, k := range []struct {
		name  string
		start func(t *testing.T, mode TLS) (*service, Certificates)
	}{
		{"etcd", func(t *testing.T, mode TLS) (*service, Certificates) {
			e := NewEtcd(t, EtcdConfig{TLS: mode})
			return e.service, e.Certificates
		}},
		{"Consul", func(t *testing.T, mode TLS) (*service, Certificates) {
			c := NewConsul(t, ConsulConfig{TLS: mode})
			return c.service, c.Certificates
		}},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s, files := k.start(t, ServerTLS)
			ca, err := os.ReadFile(files.CACert)
			require.NoError(t, err)
			pool := x509.NewCertPool()
			require.True(t, pool.AppendCertsFromPEM(ca))
			require.NoError(t, shakeHands(s.Addrs()[0], &tls.Config{RootCAs: pool}))
			require.NoError(t, shakeHands(s.Addrs()[0], &tls.Config{RootCAs: pool, ServerName: "localhost"}))
			require.Error(t, shakeHands(s.Addrs()[0], new(tls.Config)), "no other client may trust it")
			require.Error(t, shakeHands(s.Addrs()[0], &tls.Config{RootCAs: pool, ServerName: "example.com"}))

			s, files = k.start(t, MutualTLS)
			ca, err = os.ReadFile(files.CACert)
			require.NoError(t, err)
			require.True(t, pool.AppendCertsFromPEM(ca))
			require.Error(t, shakeHands(s.Addrs()[0], &tls.Config{RootCAs: pool}), "a certificate must be required")
			pair, err := tls.LoadX509KeyPair(files.ClientCert, files.ClientKey)
			require.NoError(t, err)
			require.Equal(t, ClientName, pair.Leaf.Subject.CommonName)
			require.NoError(t, shakeHands(s.Addrs()[0], &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}))
		})
	}
}

// shakeHands connects and sends a request: only the first answer shows that a certificate is missing.
func shakeHands(addr string, config *tls.Config) error {
	conn, err := tls.Dial("tcp", addr, config)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("GET / HTTP/1.0\r\n\r\n")); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}
