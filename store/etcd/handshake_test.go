package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/credentials"
)

// If the client library gives up a handshake at its own time limit, the error still shows why those before it failed.
func TestHandshakeThatIsGivenUpSaysNothing(t *testing.T) {
	d := &driver{config: Config{TLS: &tls.Config{}}, trouble: errors.New("unknown authority")}
	ours, silent := net.Pipe()
	defer ours.Close()
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := security{credentials.NewTLS(d.config.TLS), d}.ClientHandshake(ctx, "endpoint", ours)
	require.ErrorIs(t, err, context.Canceled)
	require.EqualError(t, d.trouble, "unknown authority")
}
