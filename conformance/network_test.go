package conformance_test

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/stretchr/testify/require"
)

// echo returns the address of a server that sends each byte back, and a channel that receives each byte.
func echo(t *testing.T) (address string, answered <-chan byte) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	told, done := make(chan byte, 16), make(chan struct{})
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for b := make([]byte, 1); ; {
			if _, err := io.ReadFull(conn, b); err != nil {
				return
			}
			_, _ = conn.Write(b)
			told <- b[0]
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return listener.Addr().String(), told
}

// DelayReplies holds replies back and lets requests pass at once. A cut also stops replies that are held back.
func TestDelayReplies(t *testing.T) {
	const delay = 300 * time.Millisecond
	address, answered := echo(t)
	network := conformance.NewNetwork()
	conn, err := network.Dial(t.Context(), "tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	buf := make([]byte, 1)

	network.DelayReplies(delay)
	began := time.Now()
	_, err = conn.Write([]byte("a"))
	require.NoError(t, err)
	<-answered
	_, err = io.ReadFull(conn, buf)
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), delay)

	network.DelayReplies(time.Hour) // so that the cut comes before the reply, however slow the machine is
	_, err = conn.Write([]byte("b"))
	require.NoError(t, err)
	<-answered
	network.Cut()
	network.DelayReplies(0)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(2*delay)))
	_, err = conn.Read(buf)
	require.Error(t, err, "the reply passed the cut")
	network.Heal()
	require.NoError(t, conn.SetReadDeadline(time.Time{}))
	_, err = io.ReadFull(conn, buf)
	require.NoError(t, err)
	require.Equal(t, "b", string(buf))
}

// Bytes that are held back are not delivered when the client closes the connection. Otherwise a store that leaves a slow
// member would get its answer at once. The client is in Read meanwhile, as all client libraries are.
func TestCloseDeliversNothingEarly(t *testing.T) {
	network := conformance.NewNetwork()
	for range 500 {
		address, answered := echo(t)
		network.DelayReplies(0)
		conn, err := network.Dial(t.Context(), "tcp", address)
		require.NoError(t, err)
		network.DelayReplies(time.Hour)
		_, err = conn.Write([]byte("a"))
		require.NoError(t, err)
		<-answered
		read := make(chan int)
		go func() {
			n, _ := conn.Read(make([]byte, 1))
			read <- n
		}()
		require.NoError(t, conn.Close())
		require.Zero(t, <-read, "the reply came early")
	}
}

// A connection that is being made when the network begins to refuse is refused: it must not answer during the outage.
func TestRefuseWhileDialling(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	n := conformance.NewNetwork()
	n.DelayReplies(time.Hour)
	dialled := make(chan error, 1)
	go func() {
		conn, err := n.Dial(t.Context(), "tcp", listener.Addr().String())
		if err == nil {
			err = errors.Join(errors.New("it was not refused"), conn.Close())
		}
		dialled <- err
	}()
	accepted, err := listener.Accept() // the answer to that is on its way
	require.NoError(t, err)
	defer accepted.Close()
	n.Refuse()
	n.DelayReplies(0)
	require.ErrorIs(t, <-dialled, syscall.ECONNREFUSED)
}
