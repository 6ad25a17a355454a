package testserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// consulPorts counts the ports of an agent: one for clients, one for other
// servers, one for gossip.
const consulPorts = 3

func (c *Consul) equip(program string, members []*Member, ports []int) error {
	for i, m := range members {
		config, extra := m.file("agent.json"), m.file("extra.hcl")
		content, err := json.MarshalIndent(c.agentConfig(m, i, ports), "", "  ")
		if err != nil {
			return err
		}
		if err := errors.Join(
			os.WriteFile(config, content, 0o644),
			os.WriteFile(extra, []byte(c.cfg.Extra), 0o644),
		); err != nil {
			return err
		}
		m.server = &consulAgent{
			consul: c,
			args:   []string{program, "agent", "-config-file=" + config, "-config-file=" + extra},
			addr:   m.addr,
			rpc:    loopback(ports[consulPorts*i+1]),
			node:   nodeName(i),
		}
	}
	return nil
}

// settings are a part of an agent's configuration.
type settings map[string]any

// agentConfig returns the configuration of the agent with index i. The ports
// are those of all agents.
func (c *Consul) agentConfig(m *Member, i int, ports []int) settings {
	const off = -1
	var gossip []string
	for i := 2; i < len(ports); i += consulPorts {
		gossip = append(gossip, loopback(ports[i]))
	}
	p := ports[consulPorts*i:]
	listen := settings{
		"http": p[0], "https": off, "server": p[1], "serf_lan": p[2], "serf_wan": off,
		"dns": off, "grpc": off, "grpc_tls": off,
	}
	config := settings{
		"node_name":            nodeName(i),
		"data_dir":             m.dataDir(),
		"bind_addr":            "127.0.0.1",
		"client_addr":          "127.0.0.1",
		"ports":                listen,
		"retry_join":           gossip,
		"retry_interval":       "200ms", // the others may start later
		"performance":          settings{"raft_multiplier": 1},
		"disable_update_check": true,
		"ui_config":            settings{"enabled": false},
	}
	if i < c.cfg.Members {
		config["server"] = true
		config["bootstrap_expect"] = c.cfg.Members
	}
	if c.cfg.TLS != NoTLS {
		listen["http"], listen["https"] = off, p[0]
		config["tls"] = settings{"https": settings{
			"ca_file": c.CACert, "cert_file": c.serverCert, "key_file": c.serverKey,
			"verify_incoming": c.cfg.TLS == MutualTLS,
		}}
	}
	if c.cfg.ACL {
		config["acl"] = settings{
			"enabled":        true,
			"default_policy": "deny",
			"tokens":         settings{"initial_management": managementToken, "agent": managementToken},
		}
	}
	return config
}

func nodeName(i int) string { return fmt.Sprintf("agent-%d", i+1) }
