package testserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver/binary"
)

// EtcdConfig says what to start. Its zero value is a single server.
type EtcdConfig struct {
	// Members is the number of servers. Default 1.
	Members int

	// Heartbeat is how often the leader sends one, in whole milliseconds.
	// Default 100 ms, as etcd's.
	Heartbeat time.Duration

	// ElectionTimeout is after how long without a heartbeat members elect
	// another leader, in whole milliseconds, at least 5 heartbeats. No lease is
	// shorter than 1.5 of them, in whole seconds rounded up. Default 1 s, as
	// etcd's.
	ElectionTimeout time.Duration

	// TLS says how clients connect. Members are connected to each other in
	// the clear, always.
	TLS TLS

	// Auth creates the user root with [Etcd.RootPassword] and enables authentication. No other user may do anything;
	// see [Etcd.AddUser].
	Auth bool

	// Extra are further flags. They replace defaults of the same name. For
	// example "--unsafe-no-fsync" spares the disk and makes writes faster
	// than they are in production.
	Extra []string
}

// Etcd is an etcd service: one server, or a cluster of them. All its methods
// may be called at the same time.
type Etcd struct {
	*service
	Certificates
	caller *caller
}

// StartEtcd starts a service and waits until it serves: every member answers,
// exactly one leads, and authentication is enabled if it is asked for. Ctx
// bounds the start only; the service runs until Close.
func StartEtcd(ctx context.Context, cfg EtcdConfig) (*Etcd, error) {
	return startEtcd(ctx, cfg, reservePorts)
}

func startEtcd(ctx context.Context, cfg EtcdConfig, reserve reserveFunc) (*Etcd, error) {
	cfg.Members = cmp.Or(cfg.Members, 1)
	cfg.Heartbeat = cmp.Or(cfg.Heartbeat, 100*time.Millisecond)
	cfg.ElectionTimeout = cmp.Or(cfg.ElectionTimeout, time.Second)
	if cfg.Members < 0 || cfg.Heartbeat < time.Millisecond || cfg.ElectionTimeout < 5*cfg.Heartbeat {
		return nil, fmt.Errorf("testserver: invalid configuration: %d members, heartbeat %v, election timeout %v",
			cfg.Members, cfg.Heartbeat, cfg.ElectionTimeout)
	}
	program, err := binary.Etcd.Find()
	if err != nil {
		return nil, err
	}
	e := new(Etcd)
	e.service, err = plan{
		name:    "etcd",
		members: cfg.Members,
		ports:   etcdPorts,
		reserve: reserve,
		equip: func(dir string, members []*Member, ports []int) (err error) {
			if e.Certificates, e.caller, err = cfg.TLS.prepare(dir); err != nil {
				return err
			}
			e.equip(cfg, program, members, ports)
			return nil
		},
	}.start(ctx)
	if err != nil {
		return nil, err
	}
	if cfg.Auth {
		if err := e.enableAuth(ctx); err != nil {
			return nil, errors.Join(err, e.Close())
		}
	}
	return e, nil
}

// etcdPorts counts the ports of a member: for clients, for other members, and
// for health and metrics, which need neither TLS nor authentication.
const etcdPorts = 3

func (e *Etcd) equip(cfg EtcdConfig, program string, members []*Member, ports []int) {
	var cluster []string
	for i := range members {
		cluster = append(cluster, fmt.Sprintf("%d=http://%s", i+1, loopback(ports[etcdPorts*i+1])))
	}
	for i, m := range members {
		p := ports[etcdPorts*i:]
		client, peer, metrics := e.caller.scheme+"://"+m.addr, "http://"+loopback(p[1]), loopback(p[2])
		args := []string{
			"--name=" + strconv.Itoa(i+1),
			"--data-dir=" + m.dataDir(),
			"--listen-client-urls=" + client,
			"--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer,
			"--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=" + strings.Join(cluster, ","),
			"--initial-cluster-token=" + filepath.Dir(m.dir),
			"--listen-metrics-urls=http://" + metrics,
			"--heartbeat-interval=" + strconv.FormatInt(cfg.Heartbeat.Milliseconds(), 10),
			"--election-timeout=" + strconv.FormatInt(cfg.ElectionTimeout.Milliseconds(), 10),
		}
		if cfg.TLS != NoTLS {
			args = append(args, "--cert-file="+e.serverCert, "--key-file="+e.serverKey)
		}
		if cfg.TLS == MutualTLS {
			args = append(args, "--client-cert-auth", "--trusted-ca-file="+e.CACert)
		}
		m.server = &etcdServer{program: program, args: append(args, cfg.Extra...), metrics: metrics}
	}
}
