package testserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
)

const managementToken = "11111111-2222-3333-4444-555555555555"

// ManagementToken returns the token that may do everything, or "" if ACL is off.
func (c *Consul) ManagementToken() string {
	if c.cfg.ACL {
		return managementToken
	}
	return ""
}

// CreateToken creates a token that may do what the policy's rules say, for
// example `key_prefix "a/" { policy = "write" }`, and nothing else. It returns
// when all agents know it that run and are not paused. ACL must be on.
func (c *Consul) CreateToken(ctx context.Context, rules string) (string, error) {
	i, err := c.awaitLeader(ctx)
	if err != nil {
		return "", err
	}
	addr := c.Member(i).Addr()
	policy := map[string]any{"Name": rand.Text(), "Rules": rules}
	if _, err := c.request(ctx, addr, managementToken, http.MethodPut, "/v1/acl/policy", policy); err != nil {
		return "", err
	}
	answer, err := c.request(ctx, addr, managementToken, http.MethodPut, "/v1/acl/token",
		map[string]any{"Policies": []any{map[string]any{"Name": policy["Name"]}}})
	if err != nil {
		return "", err
	}
	var token struct{ SecretID string }
	if err := json.Unmarshal(answer, &token); err != nil {
		return "", fmt.Errorf("testserver: Consul's answer to a new token: %w", err)
	}
	return token.SecretID, c.awaitToken(ctx, token.SecretID)
}

// awaitToken waits until all active agents know the token: a server learns of
// it by replication only.
func (c *Consul) awaitToken(ctx context.Context, token string) error {
	for _, m := range c.members {
		err := poll(ctx, func(ctx context.Context) (missing string, err error) {
			if !m.active() {
				return "", nil
			}
			ctx, cancel := context.WithTimeout(ctx, answerTimeout)
			defer cancel()
			if _, err := c.request(ctx, m.addr, token, http.MethodGet, "/v1/acl/token/self?stale", nil); err != nil {
				return err.Error(), nil
			}
			return "", nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Consul) request(ctx context.Context, addr, token, method, path string, body any) ([]byte, error) {
	header := http.Header{}
	if token != "" {
		header.Set("X-Consul-Token", token)
	}
	return c.caller.call(ctx, method, addr, path, header, body)
}
