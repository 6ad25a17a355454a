package testserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// TLS says how clients connect to a service.
type TLS int

const (
	// NoTLS is a connection in the clear.
	NoTLS TLS = iota
	// ServerTLS is TLS in which only the server shows a certificate.
	ServerTLS
	// MutualTLS is TLS in which a client must show a certificate too.
	MutualTLS
)

// ClientName is the common name in the client's certificate: its user, where
// an etcd with [MutualTLS] is given no password.
const ClientName = "testclient"

// Certificates are the paths of PEM files for the clients of a service, whose
// own certificate is for localhost and 127.0.0.1. They are empty without TLS,
// and gone once the service is closed.
type Certificates struct {
	// CACert is the authority's certificate. It signed the server's and the client's.
	CACert string
	// ClientCert and ClientKey are what a client shows. They exist with
	// ServerTLS too, if no client needs them.
	ClientCert, ClientKey string
	// Server has the server's key and certificate in one file. Only [NewCertificates] makes it.
	Server string

	serverCert, serverKey string
}

// prepare makes certificates in the directory, if they are needed, and returns
// them and a caller that uses them.
func (t TLS) prepare(dir string) (c Certificates, _ *caller, err error) {
	if t == NoTLS {
		return c, newCaller(nil), nil
	}
	if c, err = makeCertificates(dir); err != nil {
		return c, nil, err
	}
	config, err := c.ownConfig()
	return c, newCaller(config), err
}

// makeCertificates writes the files for a service into the directory. No other
// service trusts them.
func makeCertificates(dir string) (Certificates, error) {
	in := func(name string) string { return filepath.Join(dir, name) }
	c := Certificates{
		CACert:     in("ca.pem"),
		ClientCert: in("client.pem"), ClientKey: in("client-key.pem"),
		serverCert: in("server.pem"), serverKey: in("server-key.pem"),
	}
	ca, err := newAuthority()
	if err != nil {
		return Certificates{}, err
	}
	return c, errors.Join(
		writePEM(c.CACert, "CERTIFICATE", ca.cert.Raw),
		ca.issue(c.ClientCert, c.ClientKey, &x509.Certificate{
			Subject:     pkix.Name{CommonName: ClientName},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}),
		ca.issue(c.serverCert, c.serverKey, &x509.Certificate{
			DNSNames:    []string{"localhost"},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			// etcd's gateway is a client of etcd, with this certificate, and so are we.
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}),
	)
}

// ownConfig returns what this package needs as a client. It shows the server's
// certificate, because that has no common name: etcd's gateway refuses one.
func (c Certificates) ownConfig() (*tls.Config, error) {
	ca, err := os.ReadFile(c.CACert)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	pair, err := tls.LoadX509KeyPair(c.serverCert, c.serverKey)
	if err != nil {
		return nil, err
	}
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}, nil
}

// authority signs certificates.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "testserver"},
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	a := &authority{key: key, cert: template} // signs itself
	der, err := a.sign(template, key)
	if err != nil {
		return nil, err
	}
	a.cert, err = x509.ParseCertificate(der)
	return a, err
}

// issue writes a certificate by the template, and a key for it.
func (a *authority) issue(certFile, keyFile string, template *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := a.sign(template, key)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(writePEM(certFile, "CERTIFICATE", der), writePEM(keyFile, "PRIVATE KEY", keyDER))
}

func (a *authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) (der []byte, err error) {
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return nil, err
	}
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(24 * time.Hour)
	return x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
