package testserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// PostgresCluster is a primary and two standbys, and what Patroni would do for them: when the primary ends, the standby
// that has most of its log is promoted, and the other one follows that. A commit is confirmed when one of the standbys
// has it, so no confirmed transaction is lost. A member that is started again is a standby, at its own address.
//
// It is a cluster for kills and stops: a member that is paused is not replaced. A primary that ends while no standby runs
// is not replaced either, and no member starts then.
type PostgresCluster struct {
	nodes  []*Postgres
	joined []int // of each node, how many promotions there had been when it began to follow; guarded by mu, as are all below

	mu         sync.Mutex
	primary    int
	promotions int

	end     context.CancelFunc // ends manage
	managed chan error         // the error of manage, when it has ended
}

// NewPostgresCluster starts a cluster for a test, as [NewPostgres] does. The configuration is that of each member.
func NewPostgresCluster(t testing.TB, cfg PostgresConfig) *PostgresCluster {
	t.Helper()
	return startForTest(t, cfg, startPostgresCluster)
}

func startPostgresCluster(ctx context.Context, cfg PostgresConfig) (*PostgresCluster, error) {
	const members = 3
	c := &PostgresCluster{joined: make([]int, members), managed: make(chan error, 1)}
	for i := range members {
		node, err := c.startNode(ctx, cfg, i)
		if err != nil {
			return nil, errors.Join(err, c.closeNodes())
		}
		c.nodes = append(c.nodes, node)
	}
	for _, node := range c.nodes {
		if _, err := node.Psql(ctx, "ALTER SYSTEM SET synchronous_standby_names = '"+c.names()+"'; SELECT pg_reload_conf()"); err != nil {
			return nil, errors.Join(err, c.closeNodes())
		}
	}
	if err := c.Ready(ctx); err != nil {
		return nil, errors.Join(err, c.closeNodes())
	}
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	c.end = end
	go func() { c.managed <- c.manage(background) }()
	return c, nil
}

func (c *PostgresCluster) startNode(ctx context.Context, cfg PostgresConfig, i int) (node *Postgres, err error) {
	if i == 0 {
		node, err = StartPostgres(ctx, cfg)
	} else {
		node, err = c.nodes[0].startStandby(ctx, cfg, false)
	}
	if err == nil {
		node.Member(0).restart = func(ctx context.Context) error { return c.rejoin(ctx, i) }
	}
	return node, err
}

// names are the standbys that a commit waits for, whichever member is the primary. pg_basebackup is none.
func (c *PostgresCluster) names() string {
	var names []string
	for _, node := range c.nodes {
		names = append(names, standbyName(node.Member(0)))
	}
	return "ANY 1 (" + strings.Join(names, ", ") + ")"
}

// Addrs returns the addresses of the members.
func (c *PostgresCluster) Addrs() (addrs []string) {
	for _, node := range c.nodes {
		addrs = append(addrs, node.Addrs()...)
	}
	return addrs
}

// Node returns the server with index i, counted from 0.
func (c *PostgresCluster) Node(i int) *Postgres { return c.nodes[i] }

// Member returns the member of the server with index i. To start it is to have it join as a standby.
func (c *PostgresCluster) Member(i int) *Member { return c.nodes[i].Member(0) }

// Leader returns the index of the primary. It is an error if the primary has ended and no standby is promoted yet.
func (c *PostgresCluster) Leader() (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.Member(c.primary).Running() {
		return -1, errors.New("testserver: the primary has ended")
	}
	return c.primary, nil
}

// Ready waits until there is a primary, and each other member that runs streams from it.
func (c *PostgresCluster) Ready(ctx context.Context) error {
	return poll(ctx, func(ctx context.Context) (missing string, err error) {
		primary, err := c.Leader()
		if err != nil {
			return err.Error(), nil
		}
		running := -1 // without the primary
		for i := range c.nodes {
			if c.Member(i).Running() {
				running++
			}
		}
		streaming, err := c.nodes[primary].Psql(ctx,
			"SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'quorum'")
		if err != nil || streaming != strconv.Itoa(running) {
			return fmt.Sprintf("%s of %d standbys stream from member %d: %v", streaming, running, primary, err), nil
		}
		return "", nil
	})
}

// manage has another primary promoted each time that one has ended, until ctx ends.
func (c *PostgresCluster) manage(ctx context.Context) error {
	for {
		c.mu.Lock()
		process := c.Member(c.primary).current()
		c.mu.Unlock()
		if process != nil {
			select {
			case <-process.exited:
			case <-ctx.Done():
				return nil
			}
		}
		if err := poll(ctx, c.failOver); ctx.Err() != nil {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// failOver promotes the standby that has most of the log, if the primary has ended. It may be called again after it has
// come half the way.
func (c *PostgresCluster) failOver(ctx context.Context) (missing string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Member(c.primary).Running() {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // a standby might end meanwhile
	defer cancel()
	best, most := -1, ""
	for i, node := range c.nodes {
		if !c.Member(i).Running() {
			continue
		}
		if err := node.Disconnect(ctx); err != nil { // or it might still get some of the log
			return err.Error(), nil
		}
		has, err := node.Psql(ctx, "SELECT lpad((CASE WHEN pg_is_in_recovery() THEN "+
			"greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) ELSE pg_current_wal_lsn() END - '0/0')::text, 20, '0')")
		if err != nil {
			return err.Error(), nil
		}
		if best < 0 || has > most {
			best, most = i, has
		}
	}
	if best < 0 {
		return "no standby runs", nil
	}
	if err := c.nodes[best].Promote(ctx); err != nil {
		return err.Error(), nil
	}
	c.primary = best
	c.promotions++
	for i, node := range c.nodes {
		if i != best && c.Member(i).Running() && c.follow(ctx, node) == nil {
			c.joined[i] = c.promotions // otherwise it has ended
		}
	}
	return "", nil
}

// follow points a standby that runs to the primary.
func (c *PostgresCluster) follow(ctx context.Context, standby *Postgres) error {
	standby.primary = c.nodes[c.primary]
	_, err := standby.Psql(ctx, "ALTER SYSTEM SET primary_conninfo = '"+c.conninfo(standby)+"'; SELECT pg_reload_conf()")
	return err
}

// conninfo is how a standby connects to the primary.
func (c *PostgresCluster) conninfo(standby *Postgres) string {
	return c.nodes[c.primary].conninfo() + " application_name=" + standbyName(standby.Member(0))
}

// rejoin starts a member again once there is a primary. If another primary was promoted since the member followed, the
// member might have what that one never got, so it begins with a copy.
func (c *PostgresCluster) rejoin(ctx context.Context, i int) error {
	return poll(ctx, func(ctx context.Context) (missing string, err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.Member(c.primary).Running() {
			return "there is no primary", nil
		}
		if m := c.Member(i); !m.Running() && c.joined[i] < c.promotions {
			if err := c.copyTo(ctx, c.nodes[i]); err != nil && c.Member(c.primary).Running() {
				return "", err
			} else if err != nil {
				return err.Error(), nil
			}
			c.joined[i] = c.promotions
		}
		return "", c.Member(i).launch()
	})
}

// copyTo replaces the data of a member that does not run by a copy of the primary's.
func (c *PostgresCluster) copyTo(ctx context.Context, standby *Postgres) error {
	m := standby.Member(0)
	standby.primary = c.nodes[c.primary]
	settings := conf(map[string]string{"primary_conninfo": c.conninfo(standby), "synchronous_standby_names": c.names()})
	if err := errors.Join(m.discard(), os.RemoveAll(standby.data)); err != nil {
		return err
	}
	if err := c.nodes[c.primary].copyTo(ctx, m); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(m.file("data/postgresql.auto.conf"), settings, 0o600), giveAway(filepath.Dir(m.dir)))
}

// Close ends the members and removes their data. Closing twice does nothing.
func (c *PostgresCluster) Close() error {
	c.end()
	err := <-c.managed
	c.managed <- nil
	return errors.Join(err, c.closeNodes())
}

func (c *PostgresCluster) closeNodes() error {
	var errs []error
	for _, node := range c.nodes {
		errs = append(errs, node.Close())
	}
	return errors.Join(errs...)
}

// KeepLogs does what it does for a single server, for each.
func (c *PostgresCluster) KeepLogs() string {
	var reports []string
	for _, node := range c.nodes {
		reports = append(reports, node.KeepLogs())
	}
	return strings.Join(reports, "\n")
}
