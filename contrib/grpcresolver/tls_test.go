package grpcresolver_test

import (
	"crypto/x509"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-leadership/leadership/contrib/grpcresolver"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// With TLS the certificate of a server is that of its address, or of the name that grpc.WithAuthority asks for.
func TestCertificates(t *testing.T) {
	certificates := httptest.NewTLSServer(nil) // it has one for 127.0.0.1 and example.com
	certificates.Close()
	roots := x509.NewCertPool()
	roots.AddCert(certificates.Certificate())
	w := newWorld(t, inMemory(t, 10*time.Second))
	opts := grpc.Creds(credentials.NewServerTLSFromCert(&certificates.TLS.Certificates[0]))
	right, wrong := w.members[0], w.members[1]
	right.address, wrong.address = serve(t, "127.0.0.1:0", opts), serve(t, "localhost:0", opts)
	_, port, err := net.SplitHostPort(wrong.address)
	require.NoError(t, err)
	wrong.address = net.JoinHostPort("localhost", port)
	client := grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(roots, ""))
	b := grpcresolver.NewBuilder(w.follower, nil)
	own, named, other := w.dial(b, client), w.dial(b, client, grpc.WithAuthority("example.com")), w.dial(b, client, grpc.WithAuthority("example.org"))

	w.elect(right)
	w.answers(own, right)
	w.answers(named, right)
	w.fails(other, "example.org")
	w.resign(right)
	w.elect(wrong)
	w.fails(own, "localhost")
}
