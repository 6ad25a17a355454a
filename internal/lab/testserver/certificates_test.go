package testserver

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireTLS checks which clients trust a server, and whom it trusts.
func requireTLS(t *testing.T, addr string, files Certificates, mode TLS) {
	t.Helper()
	ca, err := os.ReadFile(files.CACert)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(ca))
	var pairs []tls.Certificate
	if mode == MutualTLS {
		require.Error(t, shakeHands(addr, &tls.Config{RootCAs: pool}), "a certificate must be required")
		pair, err := tls.LoadX509KeyPair(files.ClientCert, files.ClientKey)
		require.NoError(t, err)
		require.Equal(t, ClientName, pair.Leaf.Subject.CommonName)
		pairs = append(pairs, pair)
	}
	require.NoError(t, shakeHands(addr, &tls.Config{RootCAs: pool, Certificates: pairs}))
	require.NoError(t, shakeHands(addr, &tls.Config{RootCAs: pool, Certificates: pairs, ServerName: "localhost"}))
	require.Error(t, shakeHands(addr, &tls.Config{Certificates: pairs}), "no other client may trust it")
	require.Error(t, shakeHands(addr, &tls.Config{RootCAs: pool, Certificates: pairs, ServerName: "example.com"}))
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
