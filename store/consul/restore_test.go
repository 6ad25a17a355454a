package consul_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

// The servers are restored from a copy that has a leader's session, and not its ballot. The leader's client agent hides that
// from the watch: it asks the restored servers for a change after an index that they have not reached. The session is renewed,
// and proves nothing: a rival leads. The first confirmation after the restore ends the leader's term.
func TestRestoredSessionWithoutItsBallot(t *testing.T) {
	t.Parallel()
	const ttl = 20 * time.Second
	srv := testserver.NewConsul(t, testserver.ConsulConfig{Client: true})
	server, client := srv.Member(0), operator(t, srv)
	st := open(t, consul.Config{Addresses: []string{srv.Client().Addr()}, TTL: ttl})
	castFirst(t, st, newElection(), "so that the session is in the copy")
	require.NoError(t, server.Kill())
	require.NoError(t, server.SaveData())
	require.NoError(t, server.Start(soon(t)))
	election := newElection()
	b := castFirst(t, st, election, "leader")
	for i := range 50 { // so that the restored servers do not reach the index
		put(t, client, fmt.Sprint("other/", i), "")
	}
	renewedOrOver(t, b)
	require.NoError(t, server.Kill())
	stopped := time.Now()
	require.NoError(t, server.RestoreData())
	require.NoError(t, server.Start(soon(t)))
	rival := castFirst(t, open(t, consul.Config{Addresses: srv.Addrs()[:1]}), election, "rival")
	began := time.Now()
	lost(t, b)
	t.Logf("%v after the rival's token %d the leader lost its ballot with the token %d: %v", time.Since(began), rival.Token(), b.Token(), b.Err())
	require.True(t, b.Lease().Last().Sent.Before(stopped), "a renewal after the restore has counted")
}
