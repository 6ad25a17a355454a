package testserver

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// etcdServer is one etcd server.
type etcdServer struct {
	program string
	args    []string
	metrics string // the address that serves health and metrics
}

// command runs the server, and keeps from it the variables that stand for
// flags: those are for other servers.
func (s *etcdServer) command() *exec.Cmd {
	cmd := exec.Command(s.program, s.args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ETCD_") })
	return cmd
}

// monitor calls servers on the ports that need neither TLS nor authentication.
var monitor = newCaller(nil)

// role of a server is what its metrics say, provided that the server is healthy:
// that it can read through the leader. A server that has not joined its cluster
// answers here too, although its port for clients is silent.
func (s *etcdServer) role(ctx context.Context) (role, error) {
	metrics, err := monitor.call(ctx, http.MethodGet, s.metrics, "/metrics", nil, nil)
	if err != nil {
		return unready, err
	}
	is := func(name string) bool { return bytes.Contains(metrics, []byte("\netcd_server_"+name+" 1\n")) }
	if !is("has_leader") {
		return unready, nil // without a line in its log, as a failed check of its health would leave
	}
	if _, err := monitor.call(ctx, http.MethodGet, s.metrics, "/health", nil, nil); err != nil {
		return unready, nil
	}
	if is("is_leader") {
		return leader, nil
	}
	return follower, nil
}
