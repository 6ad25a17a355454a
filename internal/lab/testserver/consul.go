package testserver

import (
	"cmp"
	"context"
	"fmt"

	"github.com/go-leadership/leadership/internal/lab/testserver/binary"
)

// ConsulConfig says what to start. Its zero value is a single server.
type ConsulConfig struct {
	// Members is the number of servers. Default 1.
	Members int

	// Client adds a client agent, see [Consul.Client].
	Client bool

	// TLS says how clients connect. Agents are connected to each other in the
	// clear, always.
	TLS TLS

	// ACL denies everything to clients without a token; see [Consul.ManagementToken] and [Consul.CreateToken].
	ACL bool

	// Extra is further configuration of all agents, as HCL or JSON. It
	// replaces defaults of the same name, for example
	// `session_ttl_min = "1s"`.
	Extra string
}

// Consul is a Consul service: one server, or a cluster of them, perhaps with a
// client agent. All its methods may be called at the same time.
type Consul struct {
	*service
	Certificates
	caller *caller
	cfg    ConsulConfig
}

// StartConsul starts a service and waits until it serves: every agent answers
// through the server that leads. Ctx bounds the start only; the service runs
// until Close.
func StartConsul(ctx context.Context, cfg ConsulConfig) (*Consul, error) {
	return startConsul(ctx, cfg, reservePorts)
}

func startConsul(ctx context.Context, cfg ConsulConfig, reserve reserveFunc) (*Consul, error) {
	cfg.Members = cmp.Or(cfg.Members, 1)
	if cfg.Members < 0 {
		return nil, fmt.Errorf("testserver: invalid configuration: %d members", cfg.Members)
	}
	program, err := binary.Consul.Find()
	if err != nil {
		return nil, err
	}
	agents := cfg.Members
	if cfg.Client {
		agents++
	}
	c := &Consul{cfg: cfg}
	c.service, err = plan{
		name:    "consul",
		members: agents,
		ports:   consulPorts,
		reserve: reserve,
		equip: func(dir string, members []*Member, ports []int) (err error) {
			if c.Certificates, c.caller, err = cfg.TLS.prepare(dir); err != nil {
				return err
			}
			return c.equip(program, members, ports)
		},
	}.start(ctx)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Client returns the client agent, a member behind all servers: it is the last
// in Addrs, too. It never leads. Like every client agent it leaves the cluster
// when it is stopped, which takes some seconds and ends the sessions of its
// node. If the agent is killed, these sessions end once the servers notice. The
// configuration must have asked for a client agent.
func (c *Consul) Client() *Member {
	return c.Member(c.cfg.Members)
}
