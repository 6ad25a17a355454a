package testserver

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Agents have the limits of a default configuration.
func TestConsulClient(t *testing.T) {
	t.Parallel()
	c := NewConsul(t, ConsulConfig{Client: true, TLS: ServerTLS, Extra: `session_ttl_min = "1s"`})
	client := c.Client()
	require.Len(t, c.Addrs(), 2)
	require.Equal(t, client.Addr(), c.Addrs()[1])
	for _, addr := range c.Addrs() {
		requireTLS(t, addr, c.Certificates, ServerTLS)
		var self struct {
			DebugConfig struct {
				HTTPMaxConnsPerClient int
				SessionTTLMin         string
			}
		}
		request(t, c, http.MethodGet, addr, "/v1/agent/self", &self)
		require.Equal(t, 200, self.DebugConfig.HTTPMaxConnsPerClient)
		require.Equal(t, "1s", self.DebugConfig.SessionTTLMin)
	}
	leader, err := c.Leader()
	require.NoError(t, err)
	require.Zero(t, leader)

	session := createSession(t, c)
	require.NoError(t, client.Kill())
	require.NoError(t, c.Ready(bounded(t)), "the server must be ready without its client")
	require.True(t, sessionExists(t, c, session), "a client that is killed must not take its sessions along")
	require.NoError(t, client.Start(bounded(t)))
	require.NoError(t, c.Ready(bounded(t)))

	require.NoError(t, client.Stop())
	eventually(t, func() bool { return !sessionExists(t, c, session) }, "a client that leaves must take its sessions along")
	require.NoError(t, client.Start(bounded(t)))
	require.NoError(t, c.Ready(bounded(t)))
	createSession(t, c)
}

// request decodes the answer.
func request(t *testing.T, c *Consul, method, addr, path string, decoded any) {
	t.Helper()
	answer, err := c.request(bounded(t), addr, "", method, path, nil)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(answer, decoded))
}

// createSession makes one through the client agent, which must be possible as soon as the agent is ready.
func createSession(t *testing.T, c *Consul) string {
	t.Helper()
	var session struct{ ID string }
	request(t, c, http.MethodPut, c.Client().Addr(), "/v1/session/create", &session)
	return session.ID
}

func sessionExists(t *testing.T, c *Consul, session string) bool {
	t.Helper()
	var found []any
	request(t, c, http.MethodGet, c.Addrs()[0], "/v1/session/info/"+session, &found)
	return len(found) > 0
}

func TestConsulACL(t *testing.T) {
	t.Parallel()
	c := NewConsul(t, ConsulConfig{Members: 3, Client: true, TLS: MutualTLS, ACL: true})
	token, err := c.CreateToken(bounded(t), `key_prefix "a/" { policy = "write" }`)
	require.NoError(t, err)
	put := func(addr, token, key string) error {
		_, err := c.request(bounded(t), addr, token, http.MethodPut, "/v1/kv/"+key, nil)
		return err
	}
	for _, addr := range c.Addrs() {
		requireTLS(t, addr, c.Certificates, MutualTLS)
		require.NoError(t, put(addr, token, "a/1"))
		require.NoError(t, put(addr, c.ManagementToken(), "b"))
		require.ErrorContains(t, put(addr, token, "b"), "Permission denied")
		require.ErrorContains(t, put(addr, "", "a/1"), "Permission denied")
	}
	leader, err := c.Leader()
	require.NoError(t, err)
	require.NoError(t, c.Member(leader).Kill())
	require.NoError(t, c.Member(leader).Start(bounded(t)))
	require.NoError(t, c.Ready(bounded(t)))
	require.NoError(t, put(c.Addrs()[leader], token, "a/1"))
}

func TestNoManagementTokenWithoutACL(t *testing.T) {
	require.Empty(t, new(Consul).ManagementToken())
}
