package servers_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/internal/lab/whole"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// theirs is an etcd server with TLS and users, on which others have keys.
type theirs struct {
	srv  *testserver.Etcd
	root *clientv3.Client
}

func newTheirs(t *testing.T) *theirs {
	srv := testserver.NewEtcd(t, testserver.EtcdConfig{TLS: testserver.ServerTLS, Auth: true})
	require.NoError(t, srv.AddUser(t.Context(), "suite", "s3cret", "prod/"))
	pem, err := os.ReadFile(srv.CACert)
	require.NoError(t, err)
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	require.True(t, config.RootCAs.AppendCertsFromPEM(pem))
	root, err := clientv3.New(clientv3.Config{
		Endpoints: srv.Addrs(), TLS: config, Username: "root", Password: srv.RootPassword(), Logger: zap.NewNop(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = root.Close() })
	for _, key := range []string{"prod", "prod/election", "prod/election/_ballots/x", "prod0", "leadership/x", "z"} {
		_, err := root.Put(t.Context(), key, "theirs")
		require.NoError(t, err)
	}
	return &theirs{srv, root}
}

// keys returns all keys on the server, with their versions.
func (th *theirs) keys(t *testing.T) map[string]int64 {
	resp, err := th.root.Get(t.Context(), "\x00", clientv3.WithFromKey())
	require.NoError(t, err)
	keys := map[string]int64{}
	for _, kv := range resp.Kvs {
		keys[string(kv.Key)] = kv.ModRevision
	}
	return keys
}

// suite is this test program, with flags to run cases of the suite against a path of that server.
func (th *theirs) suite(t *testing.T, path, cases string) *exec.Cmd {
	u := "etcd+tls://suite@" + th.srv.Addrs()[0] + "/" + path + "?ttl=6s&passwordenv=SUITE_PASSWORD&cacert=" + url.QueryEscape(th.srv.CACert)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-store="+u, "-test.run=^TestStore$/"+cases)
	cmd.Env = append(os.Environ(), "SUITE_PASSWORD=s3cret")
	cmd.WaitDelay = time.Minute
	return cmd
}

// inACase starts the suite and returns in the middle of a case. Its stderr may be read once it has ended.
func (th *theirs) inACase(t *testing.T) (*exec.Cmd, *bytes.Buffer) {
	const name = "renewal-keeps-others-out"
	var said bytes.Buffer
	cmd := th.suite(t, "prod", name+"$")
	cmd.Stderr = &said
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool {
		return strings.Contains(fmt.Sprint(th.keys(t)), name)
	}, storetest.Watchdog, 10*time.Millisecond)
	return cmd, &said
}

// The suite runs against a cluster that others use.
func TestFlagStore(t *testing.T) {
	t.Parallel()
	whole.Need(t)
	th := newTheirs(t)
	for _, c := range []struct {
		name string
		test func(t *testing.T, th *theirs)
	}{
		{"prints a table", printsATable},
		{"interrupted", interrupted},
		{"no permission", noPermission},
		{"wrong password", wrongPassword},
		{"no such case", noSuchCase},
		{"can't remove its keys", cantRemoveItsKeys}, // the last: it leaves the user without a role
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, th) })
	}
}

// The suite prints a table, and leaves everything as it was.
func printsATable(t *testing.T, th *theirs) {
	before := th.keys(t)
	output, err := th.suite(t, "prod", "(step-by-step|followers-see-every-leader|stop-leaves-nothing)$").CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Regexp(t, `step-by-step +passed`, string(output))
	require.Regexp(t, `followers-see-every-leader +G5 G3 +passed`, string(output))
	require.Regexp(t, `G7 +nothing outlives its owner +1 +0 +\d`, string(output))
	require.NotContains(t, string(output), "s3cret")
	require.Equal(t, before, th.keys(t))
}

// Interrupted in the middle of a case, it still leaves everything as it was.
func interrupted(t *testing.T, th *theirs) {
	before := th.keys(t)
	cmd, said := th.inACase(t)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.Error(t, cmd.Wait())
	require.Equal(t, before, th.keys(t))
	require.Contains(t, said.String(), "interrupted: removing what the suite wrote, for a minute at most; again to leave it\n")
	require.NotContains(t, said.String(), "signal")
}

// If permissions are missing, the suite names them and does nothing else.
func noPermission(t *testing.T, th *theirs) {
	before := th.keys(t)
	output, err := th.suite(t, "dev", ".").CombinedOutput()
	require.Error(t, err)
	for _, missing := range []string{"read the leader", "list the ballots", "cast a ballot", "clear an election"} {
		require.Contains(t, string(output), "the permission to "+missing+" is missing")
	}
	require.NotContains(t, string(output), "is left", "nothing was written")
	require.NotContains(t, string(output), "s3cret")
	require.Equal(t, before, th.keys(t))
}

// If the password or token is wrong, the suite says that once, and names no permissions.
func wrongPassword(t *testing.T, th *theirs) {
	acl := testserver.NewConsul(t, testserver.ConsulConfig{ACL: true})
	const unknown = "99999999-2222-3333-4444-555555555555"
	for says, cmd := range map[string]*exec.Cmd{
		"authentication failed": th.suite(t, "prod", "."),
		"ACL not found":         exec.CommandContext(t.Context(), os.Args[0], "-store=consul://:"+unknown+"@"+acl.Addrs()[0]),
	} {
		cmd.Env = append(cmd.Environ(), "SUITE_PASSWORD=wr0ng")
		output, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Equal(t, 1, strings.Count(string(output), says), "%s", output)
		for _, not := range []string{"is missing", "is left", "wr0ng", unknown} {
			require.NotContains(t, string(output), not)
		}
	}
}

// To run no case is a mistake.
func noSuchCase(t *testing.T, th *theirs) {
	output, err := th.suite(t, "prod", "^nonesuch$").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(output), "no case was run")
}

// If the suite can't remove its keys, it says how to do that.
func cantRemoveItsKeys(t *testing.T, th *theirs) {
	cmd, said := th.inACase(t)
	_, err := th.root.UserRevokeRole(t.Context(), "suite", "suite")
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.Error(t, cmd.Wait())
	require.Regexp(t, "(?s)permission denied.*is left; remove it with\n\tetcdctl --endpoints [^ ]* del --prefix 'prod/leadership-conformance-[^/']*/'", said.String())
}

// Flags that make no sense are refused before the suite starts.
func TestFlagStoreRefused(t *testing.T) {
	t.Parallel()
	for says, args := range map[string][]string{
		`invalid ttl "1ms"`:            {"-store=etcd://h/?ttl=1ms"},
		"memory has no network to cut": {"-store=memory://h"},
	} {
		output, err := exec.CommandContext(t.Context(), os.Args[0], args...).CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(output), says)
	}
}

// If the store can't be reached, the suite gives up in time. The error says why, and speaks of no keys that are left.
func TestFlagStoreUnreachable(t *testing.T) {
	t.Parallel()
	whole.Need(t)
	meter := stall.Watch(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close()) // nothing listens there now
	began := time.Now()
	output, err := exec.CommandContext(t.Context(), os.Args[0], "-store=etcd://"+listener.Addr().String()).CombinedOutput()
	require.Error(t, err)
	require.Less(t, time.Since(began), time.Minute+meter.Stalled(), "%v", meter)
	require.Regexp(t, "the store did not answer within 20s: .*connection refused", string(output))
	require.NotContains(t, string(output), "is left")
}
