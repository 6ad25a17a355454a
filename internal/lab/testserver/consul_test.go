package testserver

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// The servers have the limits of a default configuration.
func TestConsulConfig(t *testing.T) {
	t.Parallel()
	c := NewConsul(t, ConsulConfig{Extra: `session_ttl_min = "1s"`})
	answer, err := monitor.call(bounded(t), http.MethodGet, c.Addrs()[0], "/v1/agent/self", nil, nil)
	require.NoError(t, err)
	var self struct {
		DebugConfig struct {
			HTTPMaxConnsPerClient int
			SessionTTLMin         string
		}
	}
	require.NoError(t, json.Unmarshal(answer, &self))
	require.Equal(t, 200, self.DebugConfig.HTTPMaxConnsPerClient)
	require.Equal(t, "1s", self.DebugConfig.SessionTTLMin)
}

func TestConsulClient(t *testing.T) {
	t.Parallel()
	c := NewConsul(t, ConsulConfig{Client: true})
	client := c.Client()
	require.Len(t, c.Addrs(), 2)
	require.Equal(t, client.Addr(), c.Addrs()[1])
	leader, err := c.Leader()
	require.NoError(t, err)
	require.Zero(t, leader)
	putConsul(t, client.Addr(), "from the client")
	require.Equal(t, "from the client", getConsul(t, c.Addrs()[0]))

	session := createSession(t, client.Addr())
	require.NoError(t, client.Kill())
	require.NoError(t, c.Ready(bounded(t)), "the server must be ready without its client")
	require.True(t, sessionExists(t, c, session), "a client that is killed must not take its sessions along")
	require.NoError(t, client.Start(bounded(t)))
	require.NoError(t, c.Ready(bounded(t)))

	require.NoError(t, client.Stop())
	require.NoError(t, poll(bounded(t), func(context.Context) (missing string, err error) {
		if sessionExists(t, c, session) {
			return "end of the session", nil
		}
		return "", nil
	}), "a client that leaves must take its sessions along")
	require.NoError(t, client.Start(bounded(t)))
	require.NoError(t, c.Ready(bounded(t)))
	createSession(t, client.Addr())
}

func createSession(t *testing.T, addr string) string {
	answer, err := monitor.call(bounded(t), http.MethodPut, addr, "/v1/session/create", nil, nil)
	require.NoError(t, err, "a session must be had as soon as the agent is ready")
	var session struct{ ID string }
	require.NoError(t, json.Unmarshal(answer, &session))
	return session.ID
}

func sessionExists(t *testing.T, c *Consul, session string) bool {
	answer, err := monitor.call(bounded(t), http.MethodGet, c.Addrs()[0], "/v1/session/info/"+session, nil, nil)
	require.NoError(t, err)
	var found []any
	require.NoError(t, json.Unmarshal(answer, &found))
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
