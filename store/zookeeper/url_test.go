package zookeeper_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every option of a URL reaches its setting.
func TestURL(t *testing.T) {
	t.Parallel()
	conn := operator(t)
	addr := sharedServer(t).Addrs()[0]
	election := newElection()
	st := openURL(t, "zookeeper://user%40x:p%3Ass@"+addr+"/prod%20url/eu?ttl=9s&grace=1s&root=%2Fwahl&ballot=stimme&ack=erster&acl=read")
	b := castFirst(t, st, election, "own")
	acknowledge(t, b, "own")
	nodes := list(t, conn, "/prod url/eu/wahl/"+election)
	require.Len(t, nodes, 2)
	require.Contains(t, nodes, "erster")
	require.True(t, strings.HasPrefix(nodes[0], "stimme") || strings.HasPrefix(nodes[1], "stimme"))
	acl, _, err := conn.GetACL("/prod url/eu/wahl/" + election + "/erster")
	require.NoError(t, err)
	require.Len(t, acl, 2)
	require.True(t, strings.HasPrefix(acl[0].ID, "user@x:"), acl[0].ID)
	require.Equal(t, "world", acl[1].Scheme)

	ttl, grace := 9*time.Second, time.Second
	eventually(t, func() bool { // a busy machine takes more than the sixth of the ttl
		last := b.Lease().Last()
		d := last.Deadline.Sub(last.Sent)
		return d > ttl-ttl/3 && d <= ttl-grace
	}, "a lease of the ttl and grace given")
}
