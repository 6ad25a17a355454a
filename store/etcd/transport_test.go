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
	"github.com/go-leadership/leadership/internal/lab/storetest"
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
	d := &driver{config: Config{TTL: 4 * time.Second, dialer: adapter.SystemDialer()}, connections: map[string]*connection{}}
	before := time.Now()
	conn, err := d.dial(context.Background(), address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	server, err := listener.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	member := &peer.Peer{Addr: conn.RemoteAddr()}

	d.disconnect(member, before)
	require.NoError(t, conn.SetDeadline(time.Time{}), "it is open")
	for range 2 {
		since := time.Now()
		_, err = server.Write([]byte("an answer"))
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 100))
		require.NoError(t, err)
		d.disconnect(member, since)
		require.NoError(t, conn.SetDeadline(time.Time{}), "it has answered since")
	}
	d.disconnect(member, time.Now())
	require.ErrorIs(t, conn.SetDeadline(time.Time{}), net.ErrClosed, "it has been silent since")
}

// A member falls silent at the moment in which leaders resign. The waiters connected to it lead after a quarter of the
// TTL, with one election and with many. Whichever member it is, requests are answered after a sixth
// of the TTL.
func TestSilentMemberIsLeft(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Minute
	const slack = ttl / 40 // for new connections, on a busy machine
	server := testserver.NewEtcd(t, testserver.EtcdConfig{Members: 3, Extra: fast})
	for _, elections := range []int{1, 20} {
		for _, address := range server.Addrs() {
			t.Run(fmt.Sprintf("%d elections", elections), func(t *testing.T) {
				t.Parallel()
				var lines muter
				leading := open(t, Config{Endpoints: server.Addrs(), TTL: ttl})
				st := open(t, Config{Endpoints: server.Addrs(), Dial: lines.Dial, TTL: ttl})
				firsts, waiters := make([]store.Ballot, elections), make([]store.Ballot, elections)
				name := newElection()
				var casting sync.WaitGroup
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
				var all sync.WaitGroup
				took := func(longest chan time.Duration, call func() error) {
					all.Go(func() {
						assert.NoError(t, call())
						longest <- time.Since(start)
					})
				}
				asked, told := make(chan time.Duration, 3), make(chan time.Duration, elections)
				for i := range elections {
					all.Go(func() { assert.NoError(t, firsts[i].Withdraw(soon(t))) })
					took(told, func() error { return waiters[i].Wait(soon(t)) })
				}
				for range 3 { // one of them goes to the silent member
					took(asked, func() error { _, err := st.Ballots(soon(t), name); return err })
				}
				all.Wait()
				last := func(times chan time.Duration) (last time.Duration) {
					for range cap(times) {
						last = max(last, <-times)
					}
					return last
				}
				lastTold, lastAnswer := last(told), last(asked)
				t.Logf("all told after %v, the three requests answered after %v", lastTold, lastAnswer)
				require.Less(t, lastTold, ttl/4+slack+meter.Stalled(), "%v", meter)
				require.Less(t, lastAnswer, ttl/6+slack+meter.Stalled(), "%v", meter)
			})
		}
	}
}

// The line turns slow while a candidate leads: with a round trip of an eighth of the TTL it keeps leading, and followers are
// told and confirmed. The conformance suite has lines that are slow from the start.
func TestSlowLink(t *testing.T) {
	t.Parallel()
	const ttl = 12 * time.Second // an answer may be late by an eighth of that: 1.5 s, for a busy machine
	var link storetest.Link
	election := newElection()
	c := contend(t, open(t, Config{Dial: link.Dial, TTL: ttl}), election, "own")
	term := receive(t, c.Terms, "it leads")
	link.RoundTrip(ttl / 8)
	slow := time.Now()
	follower := open(t, Config{Dial: link.Dial, TTL: ttl})
	leader, err := storetest.Leader(soon(t), follower, election, nil)
	require.NoError(t, err)
	require.Equal(t, "own", leader.Value)
	eventually(t, func() bool {
		require.NoError(t, term.Context().Err(), "after %v", time.Since(slow))
		return time.Since(slow) > ttl
	}, "a TTL")
	c.Resign()
	next, err := storetest.Leader(soon(t), follower, election, &leader)
	require.NoError(t, err)
	require.NotEqual(t, leader, next)
	for _, st := range []store.Store{follower, c.Store} {
		confirmedAgain(t, st)
	}
}
