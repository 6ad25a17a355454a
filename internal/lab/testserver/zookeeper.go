package testserver

import (
	"cmp"
	"context"
	"fmt"
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

	// Java are further arguments of java.
	Java []string
}

// ZooKeeper is a ZooKeeper service: one server, or an ensemble of them. All
// its methods may be called at the same time.
type ZooKeeper struct{ *service }

// StartZooKeeper starts a service and waits until it serves: every member
// answers and exactly one leads. Ctx bounds the start only; the service runs
// until Close.
func StartZooKeeper(ctx context.Context, cfg ZooKeeperConfig) (*ZooKeeper, error) {
	return startZooKeeper(ctx, cfg, reservePorts)
}

func startZooKeeper(ctx context.Context, cfg ZooKeeperConfig, reserve reserveFunc) (*ZooKeeper, error) {
	cfg.Members = cmp.Or(cfg.Members, 1)
	cfg.TickTime = cmp.Or(cfg.TickTime, 500*time.Millisecond)
	if cfg.Members < 0 || cfg.TickTime < time.Millisecond {
		return nil, fmt.Errorf("testserver: invalid configuration: %d members, tick time %v", cfg.Members, cfg.TickTime)
	}
	java, err := findZooKeeper()
	if err != nil {
		return nil, err
	}
	s, err := plan{
		name:    "zookeeper",
		members: cfg.Members,
		ports:   zooPorts,
		reserve: reserve,
		equip: func(_ string, members []*Member, ports []int) error {
			for i, m := range members {
				m.server = &zooServer{java: java, args: cfg.Java, addr: m.addr, dir: m.dir}
				if err := writeZooKeeperFiles(m, cfg, i+1, ports); err != nil {
					return err
				}
			}
			return nil
		},
	}.start(ctx)
	if err != nil {
		return nil, err
	}
	return &ZooKeeper{s}, nil
}

// Command sends the member with index i a four-letter word such as "srvr",
// "mntr" or "dump" and returns the answer. It blocks until the answer is
// complete or ctx ends; a paused member never answers.
func (z *ZooKeeper) Command(ctx context.Context, i int, word string) (string, error) {
	return fourLetterWord(ctx, z.Member(i).Addr(), word)
}
