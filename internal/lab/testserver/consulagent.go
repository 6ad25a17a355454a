package testserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os/exec"
	"slices"
)

// consulAgent is one Consul agent, server or client.
type consulAgent struct {
	consul *Consul
	args   []string // of the command, which is the first
	addr   string   // for clients
	rpc    string   // for other servers, if it is one
	node   string
}

func (a *consulAgent) command() *exec.Cmd { return exec.Command(a.args[0], a.args[1:]...) }

// role of an agent is the leader's if the leader's address is its own. An agent
// serves if it reaches the leader, and the leader thinks it healthy: sessions
// need that. What the agent knows by itself may be old.
func (a *consulAgent) role(ctx context.Context) (role, error) {
	var refused *statusError
	if _, err := a.get(ctx, "/v1/agent/version"); err != nil && !errors.As(err, &refused) {
		return unready, err
	}
	var addr string
	var checks []check
	switch {
	case a.decode(ctx, "/v1/status/leader", &addr) != nil || addr == "":
		return unready, nil
	case a.decode(ctx, "/v1/health/node/"+a.node+"?consistent", &checks) != nil:
		return unready, nil
	case !slices.Contains(checks, check{"serfHealth", "passing"}):
		return unready, nil
	case addr == a.rpc:
		return leader, nil
	}
	return follower, nil
}

// check is a check of a node's health.
type check struct{ CheckID, Status string }

func (a *consulAgent) decode(ctx context.Context, path string, answer any) error {
	body, err := a.get(ctx, path)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, answer)
}

func (a *consulAgent) get(ctx context.Context, path string) ([]byte, error) {
	return a.consul.request(ctx, a.addr, a.consul.ManagementToken(), http.MethodGet, path, nil)
}
