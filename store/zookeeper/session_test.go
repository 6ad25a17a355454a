package zookeeper

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// driverWithSession returns a driver to which a server has just granted a session.
func driverWithSession(id int64) *driver {
	d := &driver{config: Config{TTL: 9 * time.Second, Grace: 3 * time.Second}, changed: make(chan struct{})}
	d.established(id, false, d.config.TTL, store.Now())
	return d
}

// A confirmation counts only if it was sent on the present connection. The next session begins unconfirmed: its server
// might lag behind what the session before has seen.
func TestConfirmationIsOfThePresentConnection(t *testing.T) {
	d := driverWithSession(1)
	require.Zero(t, d.confirmed)
	require.True(t, d.touched(confirmation{sent: store.Now()}))
	before := d.confirmed
	require.NotZero(t, before)

	late := confirmation{sent: store.Now()}
	d.established(1, true, d.config.TTL, store.Now())
	require.False(t, d.touched(late), "it was sent before the handshake")
	require.Equal(t, before, d.confirmed, "the session is the same")

	late = confirmation{sent: store.Now()}
	d.established(2, false, d.config.TTL, store.Now())
	require.False(t, d.touched(late), "it was sent in the session before")
	require.Zero(t, d.confirmed)
	require.True(t, d.touched(confirmation{sent: store.Now()}))
	require.NotZero(t, d.confirmed)

	d.established(0, false, 0, store.Now())
	require.False(t, d.touched(confirmation{sent: store.Now()}), "the session has expired")
}

// A session that is given up is ended by the next handshake. If the engine holds it, the engine ends the lease before.
func TestSessionThatIsGivenUpIsEnded(t *testing.T) {
	for _, opened := range []bool{false, true} {
		d := driverWithSession(7)
		d.current.opened = opened
		d.abandon(errors.New("no answer"))
		require.Nil(t, d.current)
		require.EqualValues(t, 7, d.leaving)
		require.Equal(t, !opened, d.ending)
		d.established(7, true, d.config.TTL, store.Now())
		require.Nil(t, d.current, "it is being ended")
	}
}

// A server that answers a handshake and nothing after it is left, also while it has to end a session: no confirmation
// is sent then that could go unanswered.
func TestServerFreezesWhileASessionIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 6 * time.Second
		freezes := func(conn net.Conn) { // after the handshake
			defer func() { _ = conn.Close() }()
			length := make([]byte, lengthBytes)
			if _, err := io.ReadFull(conn, length); err != nil {
				return
			}
			if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(length))); err != nil {
				return
			}
			go func() { _, _ = conn.Write(connectReply(asked, ttl)) }() // the request to end the session is still being written
			_, _ = io.Copy(io.Discard, conn)
		}
		dialled := make(chan struct{}, 100)
		d, err := newDriver(Config{Servers: []string{"127.0.0.1:2181"}, TTL: ttl, Dial: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go freezes(server)
			dialled <- struct{}{}
			return client, nil
		}})
		require.NoError(t, err)
		defer func() { _ = d.Close() }()
		sess, err := d.await(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, sess.End(t.Context(), nil), errLater)
		for range 3 { // the first, one that ends the session, and one after it
			select {
			case <-dialled:
			case <-time.After(2 * ttl):
				t.Fatal("the server was not left")
			}
		}
	})
}

// A request that waits for a connection when the service refuses the store is told why, at once.
func TestRefusalEndsTheWaitForAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &driver{changed: make(chan struct{})}
		began, refused := time.Now(), errors.New("the service refuses the store")
		result := make(chan error, 1)
		go func() { result <- d.awaitConnection(t.Context()) }()
		synctest.Wait()
		d.set(func() { d.refused = refused })
		require.ErrorIs(t, <-result, refused)
		require.Equal(t, began, time.Now())
	})
}

// A new session begins a lease, as a quorum grants it, unless the answer took so long that the lease would end before it
// is renewed. A resumed session does not: the ensemble's leader resumes one alone.
func TestHandshakeBeginsALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := driverWithSession(1)
		granted := d.current.proof
		require.NotZero(t, granted)
		time.Sleep(time.Second)
		d.established(1, true, d.config.TTL, store.Now())
		require.Equal(t, granted, d.current.proof)

		slow := store.Now()
		time.Sleep(2 * time.Second)
		d.established(2, false, d.config.TTL, slow)
		require.EqualValues(t, 2, d.current.id)
		require.Zero(t, d.current.proof)
	})
}

// An answer ends the time without one: a session is given up for its length only if it goes on for a TTL.
func TestAnsweredHandshakeKeepsTheSession(t *testing.T) {
	d := driverWithSession(1)
	d.unanswered = time.Now().Add(-time.Hour)
	d.hosts.silent = 3
	d.established(1, true, d.config.TTL, store.Now())
	require.Zero(t, d.hosts.silent)
	require.False(t, d.giveUp())
	require.NotNil(t, d.current)

	d.unanswered = time.Now().Add(-time.Hour)
	require.True(t, d.giveUp())
	require.Nil(t, d.current)
	require.EqualValues(t, 1, d.leaving)
	d.established(0, false, 0, store.Now())
	require.Zero(t, d.leaving, "it is over")
	require.False(t, d.ending)
}

// A new session has to be granted the TTL that was asked for. The present one may be granted more: it lasts no shorter
// than its lease.
func TestPresentSessionIsGrantedMore(t *testing.T) {
	d := driverWithSession(1)
	d.established(1, true, 2*d.config.TTL, store.Now())
	require.NoError(t, d.refused)
	require.NotNil(t, d.current)
	d.established(2, false, 2*d.config.TTL, store.Now())
	require.Error(t, d.refused)
	require.Nil(t, d.current)
}
