package main

import (
	"log/slog"
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/stretchr/testify/require"
)

// Clients that hang do not take all descriptors: a check, or a connection to the store, needs one.
func TestListenLimitsClients(t *testing.T) {
	page, err := listen("127.0.0.1:0", mostClients)
	require.NoError(t, err)
	before := descriptors(t)
	page.serve(slog.New(slog.DiscardHandler), http.NotFoundHandler())
	defer page.end()
	for range 3 * mostClients {
		client, err := net.Dial("tcp", page.net.Addr().String())
		require.NoError(t, err)
		defer client.Close()
		_, err = client.Write([]byte("GET /")) // and no more
		require.NoError(t, err)
	}
	storetest.Eventually(t, func() bool { return descriptors(t) >= before+4*mostClients }, "as many clients as may be are served")
	require.Less(t, descriptors(t), before+4*mostClients+10, "the others wait to be accepted")
}

func descriptors(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}
