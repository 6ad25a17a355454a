package store

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
)

// tlsOptions are those that TLS reads.
var tlsOptions = []string{"cacert", "cert", "key", "servername"}

// TLS returns the TLS settings of a URL whose scheme ends in "+tls", and nil for any other. All options except the last
// name files: cacert holds the certificates of the authorities to trust instead of the system's; cert and key are the
// client's own certificate and its key; servername is the name to expect in the servers' certificates instead of that
// in the URL. Check returns an error if one can't be used. cert and key are read again for each connection, so that a
// renewed certificate needs no restart; cacert is not.
func (u *URL) TLS() *tls.Config {
	if !strings.HasSuffix(u.Scheme, "+tls") {
		return nil
	}
	config := &tls.Config{ServerName: u.Option("servername", ""), MinVersion: tls.VersionTLS12}
	if file := u.Option("cacert", ""); file != "" {
		config.RootCAs = x509.NewCertPool()
		pem, err := os.ReadFile(file)
		switch {
		case err != nil:
			u.errs = append(u.errs, invalid("cacert", file, "%v", err))
		case !config.RootCAs.AppendCertsFromPEM(pem):
			u.errs = append(u.errs, invalid("cacert", file, "the file holds no PEM certificate"))
		}
	}
	cert, key := u.Option("cert", ""), u.Option("key", "")
	switch {
	case cert != "" && key == "":
		u.errs = append(u.errs, invalid("cert", cert, "it needs the option key too, the file with its private key"))
	case cert == "" && key != "":
		u.errs = append(u.errs, invalid("key", key, "it needs the option cert too, the file with its certificate"))
	case cert != "":
		if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
			u.errs = append(u.errs, invalid("cert", cert, "with key %q: %v", key, err))
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cert, key)
			if err != nil {
				return nil, fmt.Errorf("can't use the client's certificate %s with the key %s: %w", cert, key, err)
			}
			return &pair, nil
		}
	}
	return config
}
