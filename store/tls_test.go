package store_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func TestTLSOptions(t *testing.T) {
	u, err := store.ParseURL("z+tls://h?servername=name")
	require.NoError(t, err)
	require.Equal(t, "name", u.TLS().ServerName)
	require.NoError(t, u.Check())

	u, err = store.ParseURL("z://h?servername=name")
	require.NoError(t, err)
	require.Nil(t, u.TLS())
	require.ErrorContains(t, u.Check(), `unknown option "servername"`, "there is no TLS for it")

	scheme := newScheme()
	store.Register(scheme+"+tls", func(context.Context, *store.URL) (store.Store, error) { return noStore{}, nil })
	for _, name := range []string{"cacert", "cert", "key", "servername"} {
		u, err = store.ParseURL(scheme + "://h?" + name + "=x")
		require.NoError(t, err)
		require.Nil(t, u.TLS())
		require.ErrorContains(t, u.Check(), `option "`+name+`" is known with TLS alone: write `+scheme+"+tls://")
	}

	u, err = store.ParseURL(scheme + "://h?nonsense=x")
	require.NoError(t, err)
	require.ErrorContains(t, u.Check(), `unknown option "nonsense"`)

	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("text"), 0o600))
	for options, says := range map[string]string{
		"cacert=none":                   "no such file",
		"cacert=" + text:                "no PEM certificate",
		"cert=none&key=none":            `with key "none": open none: no such file`,
		"cert=" + text + "&key=" + text: "failed to find any PEM data",
		"cert=none":                     "it needs the option key too",
		"key=none":                      "it needs the option cert too",
		"cacert=":                       "given and empty",
		"cert=&key=":                    "given and empty",
		"servername=":                   "given and empty",
	} {
		u, err := store.ParseURL("z+tls://h?" + options)
		require.NoError(t, err)
		u.TLS()
		require.ErrorIs(t, u.Check(), store.ErrInvalid, options)
		require.ErrorContains(t, u.Check(), says, options)
	}
}

func TestTLSFiles(t *testing.T) {
	cert, key := selfSigned(t)
	u, err := store.ParseURL("z+tls://h?cacert=" + cert + "&cert=" + cert + "&key=" + key)
	require.NoError(t, err)
	config := u.TLS()
	require.NoError(t, u.Check())
	require.EqualValues(t, tls.VersionTLS12, config.MinVersion)
	pair, err := config.GetClientCertificate(nil)
	require.NoError(t, err)
	own, err := x509.ParseCertificate(pair.Certificate[0])
	require.NoError(t, err)
	_, err = own.Verify(x509.VerifyOptions{Roots: config.RootCAs})
	require.NoError(t, err, "it is among the authorities")
}

// TestRenewedCertificate: each connection is made with the certificate that the files hold then. If they can't be used,
// the error names them.
func TestRenewedCertificate(t *testing.T) {
	cert, key := selfSigned(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	u, err := store.ParseURL("z+tls://h?cacert=" + cert + "&cert=" + cert + "&key=" + key)
	require.NoError(t, err)
	config := u.TLS()
	require.NoError(t, u.Check())
	config.ServerName = "server"

	shows := func() (certificate []byte, err error) {
		near, far := net.Pipe()
		server := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert})
		done := make(chan struct{})
		go func() { // the function waits for it
			defer close(done)
			_ = server.HandshakeContext(t.Context())
			_ = far.Close()
		}()
		defer func() { _ = near.Close(); <-done }()
		client := tls.Client(near, config)
		if err := client.HandshakeContext(t.Context()); err != nil {
			return nil, err
		}
		_, _ = client.Read(make([]byte, 1)) // until the server has read the certificate
		return server.ConnectionState().PeerCertificates[0].Raw, nil
	}
	shown, err := shows()
	require.NoError(t, err)
	require.Equal(t, pair.Certificate[0], shown)

	newCert, newKey := selfSigned(t)
	renewed, err := tls.LoadX509KeyPair(newCert, newKey)
	require.NoError(t, err)
	require.NoError(t, os.Rename(newCert, cert))
	_, err = shows()
	require.ErrorContains(t, err, cert)
	require.ErrorContains(t, err, key, "it is that of the old certificate")
	require.NoError(t, os.Rename(newKey, key))
	shown, err = shows()
	require.NoError(t, err)
	require.Equal(t, renewed.Certificate[0], shown)

	require.NoError(t, os.Remove(key))
	_, err = shows()
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, key)
}

// selfSigned writes a certificate for "server" and its private key to two files.
func selfSigned(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"server"},
	}
	public, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	cert, key = filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: public}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return cert, key
}
