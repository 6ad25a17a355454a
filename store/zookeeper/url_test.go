package zookeeper_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

// Every option of a URL reaches its setting.
func TestURL(t *testing.T) {
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

// Defaults are the gem's layout and 10 s.
func TestURLDefaults(t *testing.T) {
	election := newElection()
	st := openURL(t, "ZOOKEEPER://"+sharedServer(t).Addrs()[0])
	b := castFirst(t, st, election, "own")
	require.Len(t, list(t, operator(t), dir(election)), 1)
	require.Greater(t, b.Lease().Remaining(), 4*time.Second)
	waiting(t, cast(t, open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long}), election, "second"))
}

// A wrong URL is refused at once. The error names what is wrong, and never shows the password.
func TestWrongURLs(t *testing.T) {
	for _, c := range []struct{ rest, part string }{
		{"h/?ttl=0s", "ttl"},
		{"h/?ttl=0", "ttl"},
		{"h/?ttl=-2s", `"-2s"`},
		{"h/?ttl=10", "10"},
		{"h/?ttl=soon", "soon"},
		{"h/?ttl=", "ttl"},
		{"h/?grace=-1s", `"-1s"`},
		{"h/?ttl=2s&grace=1500ms", "grace"},
		{"h/?acl=all", "all"},
		{"h/?root=x", "root"},
		{"h/?root=/", "root"},
		{"h/?ballot=a/b", "ballot"},
		{"h/?ack=ballots", "ack"},
		{"h/?acl=", "acl"},
		{"h/?tll=10s", `"tll"`},
		{"h/?tll=10s", "passwordenv, passwordfile"},
		{"h/?cacert=x", "zookeeper+tls://"}, // without TLS
		{"h/?ttl=1s&ttl=2s", "2 times"},
		{"h:port/", "port"},
		{"h:0/", "65535"},
		{"h:70000/", "65535"},
		{"h,,g/", "host"},
		{"/path", "servers"},
		{"h/a//b", "chroot"},
		{"h/a%zz", "path"},
		{"h/#x", "%23"},
	} {
		for _, credentials := range []string{"", "user:s3cr3t@"} {
			t.Run(credentials+c.rest, func(t *testing.T) {
				st, err := store.Open(context.Background(), "zookeeper://"+credentials+c.rest, nil)
				if err == nil {
					require.NoError(t, st.Close())
				}
				require.ErrorIs(t, err, store.ErrInvalid)
				require.ErrorContains(t, err, c.part)
				require.NotContains(t, err.Error(), "s3cr3t")
			})
		}
	}
	for _, raw := range []string{"zookeeper://us:er:s3cr3t%zz@h/", "zookeeper://%zz:s3cr3t@h/", "zookeeper://:s3cr3t@h/"} {
		_, err := store.Open(context.Background(), raw, nil)
		require.ErrorIs(t, err, store.ErrInvalid)
		require.NotContains(t, err.Error(), "s3cr3t")
	}
	_, err := store.Open(context.Background(), "zookeeper://ann@h/", nil)
	require.ErrorContains(t, err, `invalid user: there is a user and no password`)
	_, err = store.Open(context.Background(), "zookeper://h/", nil)
	require.ErrorContains(t, err, "zookeper")
	require.ErrorContains(t, err, "zookeeper+tls")
}

// No error shows the password, wherever it comes from.
func TestPasswordIsNeverShown(t *testing.T) {
	const password = "s3cr3t/:@&"
	errs := []error{}
	for _, addr := range []string{sharedServer(t).Addrs()[0], "127.0.0.1:1"} {
		raw := fmt.Sprintf("zookeeper://user:%s@%s/?ttl=2s", url.PathEscape(password), addr)
		st := openURL(t, raw)
		_, err := st.Cast(within(t, 100*time.Millisecond), "taken", string(make([]byte, store.MaxValue+1)))
		errs = append(errs, err)
		_, err = storetest.Leader(within(t, 100*time.Millisecond), st, newElection(), &store.Leader{})
		errs = append(errs, err)
		require.NoError(t, st.Close())
		_, err = st.Ballots(soon(t), newElection())
		errs = append(errs, err)
	}
	for _, err := range errs {
		require.Error(t, err)
		for _, part := range []string{password, url.PathEscape(password), "s3cr3t"} {
			require.NotContains(t, fmt.Sprintf("%+v", err), part)
		}
	}
}
