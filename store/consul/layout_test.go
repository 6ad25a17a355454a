package consul_test

import (
	"context"
	"crypto/rand"
	"net"
	"sync/atomic"
	"testing"

	"github.com/go-leadership/leadership/store/consul"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// Keys that are no ballots do not count, in any form: unlocked, locked by another session than their name says, or with
// a name that no ballot has.
func TestForeignKeys(t *testing.T) {
	t.Parallel()
	client := operator(t, sharedServer(t))
	election, session := newElection(), newSession(t, client)
	other := newSession(t, client)
	dir := ackKey(election) + "/_ballots/"
	put(t, client, dir, "")
	put(t, client, dir+"x", "foreign")
	put(t, client, dir+session+"-unlocked", "foreign")
	acquire(t, client, dir+session+"-locked-by-another", other)
	acquire(t, client, dir+"no-session", session)
	acquire(t, client, dir+session+"-", session)
	acquire(t, client, dir+session, session)
	acquire(t, client, dir+session+"-below/another", session)
	put(t, client, ackKey(election)+"/_lock", "foreign")
	st := open(t, consul.Config{})
	b := castFirst(t, st, election, "own")
	require.Equal(t, []string{"own"}, values(t, st, election))
	acquire(t, client, dir+session+"-a1", session) // that is a ballot, whichever program made it
	second := cast(t, st, election, "second")
	require.Equal(t, []string{"own", "foreign", "second"}, values(t, st, election))
	require.NoError(t, b.Withdraw(soon(t)))
	waiting(t, second)
	_, _, err := client.KV().Release(&api.KVPair{Key: dir + session + "-a1", Session: session}, nil)
	require.NoError(t, err)
	require.NoError(t, second.Wait(soon(t)), "who gives the lock back does not stand any more")
	_, err = client.KV().DeleteTree(ackKey(election), nil)
	require.NoError(t, err)
}

// counted counts what a connection reads.
type counted struct {
	net.Conn
	bytes *atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

// Neither casting a ballot nor a change of leader transfers the long values of other candidates; a list does.
func TestLongValuesAreNotListed(t *testing.T) {
	t.Parallel()
	election, others := newElection(), open(t, consul.Config{})
	random := make([]byte, 64<<10) // answers are compressed
	_, _ = rand.Read(random)
	value := string(random)
	first := castFirst(t, others, election, value)
	second := cast(t, others, election, value)
	var read atomic.Int64
	st := open(t, consul.Config{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &counted{conn, &read}, err
	}})
	b := cast(t, st, election, "own")
	require.NoError(t, second.Withdraw(soon(t)))
	waiting(t, b)
	require.NoError(t, first.Withdraw(soon(t)))
	require.NoError(t, b.Wait(soon(t)))
	require.Less(t, read.Load(), int64(32<<10), "bytes of casting and of two changes")
	last := cast(t, others, election, value)
	require.Equal(t, []string{"own", value}, values(t, st, election))
	require.Greater(t, read.Load(), int64(64<<10))
	require.NoError(t, last.Withdraw(soon(t)))
	left, _, err := operator(t, sharedServer(t)).KV().Keys(ackKey(election)+"/_values/", "", nil)
	require.NoError(t, err)
	require.Empty(t, left)
}
