package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/stretchr/testify/require"
)

// Clients that hang do not take all descriptors: a check, or a connection to the store, needs one. Nor do they keep others
// waiting, whether they are slow, or idle between two requests.
func TestListenLimitsClients(t *testing.T) {
	for name, request := range map[string]string{
		"silent": "", "slow": "GET /", "idle": "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			page, err := listen("127.0.0.1:0", mostClients)
			require.NoError(t, err)
			before := descriptors(t)
			server := http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})} // it cuts none off by itself
			served := make(chan error, 1)
			go func() { served <- server.Serve(page.net) }() // the test waits for it
			defer func() {
				require.NoError(t, server.Close())
				require.ErrorIs(t, <-served, http.ErrServerClosed)
			}()
			for range 3 * mostClients {
				client, err := net.Dial("tcp", page.net.Addr().String())
				require.NoError(t, err)
				defer client.Close()
				_, err = client.Write([]byte(request)) // and no more
				require.NoError(t, err)
			}
			check := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: storetest.Watchdog}
			answer, err := check.Get("http://" + page.net.Addr().String() + "/leader")
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.Equal(t, 200, answer.StatusCode)
			storetest.Eventually(t, func() bool { return descriptors(t) < before+4*mostClients+10 }, "those that are too many have been cut off")
		})
	}
}

// If all places are taken, the oldest connection of the peer that has most makes room, so that one machine can't push out
// the others' connections.
func TestListenIsFair(t *testing.T) {
	l := &limited{most: 4, peers: map[string][]*guest{}}
	enter := func(peer string) (g, out *guest) {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { _ = theirs.Close() })
		g = &guest{ours, l, peer}
		return g, l.admit(g)
	}
	balancer, out := enter("balancer")
	require.Nil(t, out)
	var crowd []*guest
	for range 3 {
		one, out := enter("crowd")
		require.Nil(t, out)
		crowd = append(crowd, one)
	}
	for i := range 3 {
		one, out := enter("crowd")
		require.Same(t, crowd[i], out)
		crowd = append(crowd, one)
	}
	other, out := enter("other")
	require.Same(t, crowd[3], out)
	for _, g := range []*guest{balancer, other, crowd[4], crowd[5], crowd[3]} { // the last one has left already
		require.NoError(t, g.Close())
	}
	require.Zero(t, l.count)
	require.Empty(t, l.peers)
	_, err := crowd[4].Conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

func descriptors(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}
