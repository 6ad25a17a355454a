// Package testserver runs real ZooKeeper servers on the loopback interface,
// for tests and for the demo.
//
// Every server has ports, data and a log of its own. [Member] has a method
// for each fault that a process can suffer: it can be stopped, killed, paused,
// and started again with what it had on disk. A server ends with the process
// that started it, even where that one is killed by SIGKILL.
//
// The servers need Linux, Java, and ZooKeeper as Debian packages it. Elsewhere
// the package builds and every start returns an error that says what is missing.
package testserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// ZooKeeperConfig says what to start. Its zero value is a single server.
type ZooKeeperConfig struct {
	// Members is the number of servers. Default 1, a standalone server; more
	// make an ensemble.
	Members int

	// TickTime is the unit in which ZooKeeper counts, in whole milliseconds.
	// A session lasts 2 to 20 of them. Default 500 ms.
	TickTime time.Duration

	// Extra are further settings of zoo.cfg, by name. They replace defaults
	// of the same name. For example "forceSync": "no" spares the disk and
	// makes writes faster than they are in production.
	Extra map[string]string
}

// ZooKeeper is a ZooKeeper service: one server, or an ensemble of them. All
// its methods may be called at the same time.
type ZooKeeper struct {
	dir     string
	ports   *ports
	members []*Member
}

// startAttempts bounds how often other ports are tried when somebody else
// takes one between our choosing it and the server's binding it.
const startAttempts = 5

// StartZooKeeper starts a service and waits until it serves: every member
// answers and exactly one leads. Ctx bounds the start only; the service runs
// until Close.
func StartZooKeeper(ctx context.Context, cfg ZooKeeperConfig) (*ZooKeeper, error) {
	return startZooKeeper(ctx, cfg, reservePorts)
}

func startZooKeeper(ctx context.Context, cfg ZooKeeperConfig, reserve func(n int) (*ports, error)) (*ZooKeeper, error) {
	cfg.Members = cmp.Or(cfg.Members, 1)
	cfg.TickTime = cmp.Or(cfg.TickTime, 500*time.Millisecond)
	if cfg.Members < 0 || cfg.TickTime < time.Millisecond {
		return nil, fmt.Errorf("testserver: invalid configuration: %d members, tick time %v", cfg.Members, cfg.TickTime)
	}
	var err error
	for range startAttempts {
		var z *ZooKeeper
		if z, err = newZooKeeper(cfg, reserve); err != nil {
			return nil, err
		}
		if err = z.start(ctx); err == nil {
			return z, nil
		}
		err = errors.Join(err, z.Close())
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return nil, err
}

// newZooKeeper prepares ports, directories and configuration. It starts nothing.
func newZooKeeper(cfg ZooKeeperConfig, reserve func(n int) (*ports, error)) (*ZooKeeper, error) {
	java, err := findZooKeeper()
	if err != nil {
		return nil, err
	}
	reserved, err := reserve(portsPerMember * cfg.Members)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "zookeeper-")
	if err != nil {
		reserved.release()
		return nil, err
	}
	z := &ZooKeeper{dir: dir, ports: reserved}
	for i := range cfg.Members {
		z.members = append(z.members, &Member{
			id:   i + 1,
			java: java,
			addr: loopback(reserved.numbers[portsPerMember*i]),
			dir:  filepath.Join(dir, strconv.Itoa(i+1)),
			sole: cfg.Members == 1,
		})
	}
	for _, m := range z.members {
		if err := m.configure(cfg, reserved.numbers); err != nil {
			return nil, errors.Join(err, z.Close())
		}
	}
	return z, nil
}

func (z *ZooKeeper) start(ctx context.Context) error {
	for _, m := range z.members {
		if err := m.launch(); err != nil {
			return err
		}
	}
	return poll(ctx, func(ctx context.Context) (missing string, err error) {
		for _, m := range z.members {
			if err := m.failure(); err != nil {
				return "", err
			}
		}
		return z.missing(ctx), nil
	})
}

// Addrs returns the addresses for clients, host:port, in the order of the members.
func (z *ZooKeeper) Addrs() []string {
	addrs := make([]string, len(z.members))
	for i, m := range z.members {
		addrs[i] = m.addr
	}
	return addrs
}

// Member returns the member with index i, counted from 0.
func (z *ZooKeeper) Member(i int) *Member { return z.members[i] }

// Leader returns the index of the member that leads: the one whose answer to
// "srvr" says so, or the only one. It is an error where none or several say
// so, which is normal for a moment after a fault. It asks only members that
// run and are not paused, and gives each a second to answer.
func (z *ZooKeeper) Leader() (int, error) {
	return leaderIn(z.modes(context.Background()))
}

func leaderIn(modes []string) (int, error) {
	leader := -1
	for i, mode := range modes {
		switch {
		case mode != modeLeader && mode != modeStandalone:
		case leader >= 0:
			return -1, fmt.Errorf("testserver: members %d and %d both say that they lead", leader, i)
		default:
			leader = i
		}
	}
	if leader < 0 {
		return -1, errors.New("testserver: no member leads")
	}
	return leader, nil
}

// Ready waits until every member that runs and is not paused serves clients,
// and exactly one of them leads.
func (z *ZooKeeper) Ready(ctx context.Context) error {
	return poll(ctx, func(ctx context.Context) (missing string, err error) {
		return z.missing(ctx), nil
	})
}

// missing says why the service is not ready, or nothing if it is.
func (z *ZooKeeper) missing(ctx context.Context) string {
	modes := z.modes(ctx)
	for i, m := range z.members {
		if modes[i] == "" && m.active() {
			return fmt.Sprintf("member %d does not serve", i)
		}
	}
	if _, err := leaderIn(modes); err != nil {
		return err.Error()
	}
	return ""
}

// modes asks all active members at once. The mode of one that is not active,
// does not answer in time, or does not serve is empty.
func (z *ZooKeeper) modes(ctx context.Context) []string {
	modes := make([]string, len(z.members))
	var asked sync.WaitGroup
	for i, m := range z.members {
		if m.active() {
			asked.Go(func() { modes[i] = m.mode(ctx) })
		}
	}
	asked.Wait()
	return modes
}

// Close kills what still runs and removes data and logs. No member can be
// started afterwards. Closing twice does nothing.
func (z *ZooKeeper) Close() error {
	var errs []error
	for _, m := range z.members {
		errs = append(errs, m.close())
	}
	z.ports.release()
	return errors.Join(append(errs, os.RemoveAll(z.dir))...)
}
