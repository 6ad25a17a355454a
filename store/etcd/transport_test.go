package etcd

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/peer"
)

// If a request has no answer, the store leaves only connections that are older than the request.
func TestNewConnectionOwesNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	address := listener.Addr().String()
	d := &driver{config: Config{TTL: 4 * time.Second, dialer: adapter.SystemDialer()}, dialled: map[string]time.Time{}}
	before := time.Now()
	conn, err := d.dial(context.Background(), address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	server, err := listener.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	member := &peer.Peer{Addr: conn.RemoteAddr()}

	disconnect(member, before)
	require.NoError(t, conn.SetDeadline(time.Time{}), "it is open")
	for range 2 {
		since := time.Now()
		_, err = server.Write([]byte("an answer"))
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 100))
		require.NoError(t, err)
		disconnect(member, since)
		require.NoError(t, conn.SetDeadline(time.Time{}), "it has answered since")
	}
	disconnect(member, time.Now())
	require.ErrorIs(t, conn.SetDeadline(time.Time{}), net.ErrClosed, "it has been silent since")
}

// A member falls silent at the moment in which leaders resign. The waiters connected to it lead after a quarter of the TTL.
// Whichever member it is, requests are answered after a sixth of the TTL.
func TestSilentMemberIsLeft(t *testing.T) {
	t.Parallel()
	const ttl, elections = 2 * time.Minute, 20
	const slack = ttl / 40 // for new connections, on a busy machine
	server := testserver.NewEtcd(t, testserver.EtcdConfig{Members: 3, Extra: fast})
	for _, address := range server.Addrs() {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			var lines muter
			leading := open(t, Config{Endpoints: server.Addrs(), TTL: ttl})
			st := open(t, Config{Endpoints: server.Addrs(), Dial: lines.Dial, TTL: ttl})
			firsts, waiters := make([]store.Ballot, elections), make([]store.Ballot, elections)
			name := newElection()
			var casting, told, asked sync.WaitGroup
			for i := range elections {
				casting.Go(func() {
					firsts[i], _ = leading.Cast(soon(t), fmt.Sprintf("%s/%d", name, i), "first")
					waiters[i], _ = st.Cast(soon(t), fmt.Sprintf("%s/%d", name, i), "waiter")
				})
			}
			casting.Wait()
			for i := range elections {
				require.NotNil(t, firsts[i])
				require.NotNil(t, waiters[i])
			}
			eventually(t, func() bool { return st.watches() == 2*elections }, "all watch")
			confirmedAgain(t, st)

			meter := stall.Watch(t)
			lines.mute(address)
			start := time.Now()
			for i := range elections {
				told.Go(func() { assert.NoError(t, firsts[i].Withdraw(soon(t))) })
				told.Go(func() { assert.NoError(t, waiters[i].Wait(soon(t))) })
			}
			for range 3 { // one of them goes to the silent member
				asked.Go(func() { _, err := st.Ballots(soon(t), name); assert.NoError(t, err) })
			}
			asked.Wait()
			require.Less(t, time.Since(start), ttl/6+slack+meter.Stalled(), "%v", meter)
			told.Wait()
			require.Less(t, time.Since(start), ttl/4+slack+meter.Stalled(), "%v", meter)
		})
	}
}
