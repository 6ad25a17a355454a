package testserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Standby starts a server that replicates this one, for a test, as [NewPostgres] does: it waits until the standby
// streams. If it is synchronous, commits wait until the standby has the transaction too, also if the standby is stopped
// or disconnected, which means for ever. A standby can have standbys.
//
// The configuration is the standby's own. PostgreSQL demands that no limit such as max_connections is lower than the
// primary's.
func (p *Postgres) Standby(t testing.TB, cfg PostgresConfig, synchronous bool) *Postgres {
	t.Helper()
	return startForTest(t, cfg, func(ctx context.Context, cfg PostgresConfig) (*Postgres, error) {
		return p.startStandby(ctx, cfg, synchronous)
	})
}

func (p *Postgres) startStandby(ctx context.Context, cfg PostgresConfig, synchronous bool) (*Postgres, error) {
	standby, err := startPostgres(ctx, cfg, p, reservePorts)
	if err != nil {
		return nil, err
	}
	name, state := standbyName(standby.Member(0)), "state = 'streaming'"
	if synchronous {
		p.syncs = append(p.syncs, name)
		state = "sync_state = 'sync'"
		names := fmt.Sprintf("FIRST %d (%s)", len(p.syncs), strings.Join(p.syncs, ", "))
		_, err = p.Psql(ctx, "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'; SELECT pg_reload_conf()")
	}
	if err == nil {
		err = p.await(ctx, "EXISTS (SELECT FROM pg_stat_replication WHERE application_name = '"+name+"' AND "+state+")")
	}
	if err != nil {
		return nil, errors.Join(err, standby.Close())
	}
	return standby, nil
}

// standbyName is what the standby calls itself at its primary.
func standbyName(m *Member) string { return "standby" + m.addr[strings.LastIndexByte(m.addr, ':')+1:] }

// copyTo makes the data of a standby. It has none of the settings that ALTER SYSTEM made: a standby that is promoted
// does not wait for the standbys of its primary.
func (p *Postgres) copyTo(ctx context.Context, standby *Member) error {
	data := standby.dataDir()
	return errors.Join(
		runIn(ctx, standby.dir, filepath.Join(p.programs, "pg_basebackup"),
			"-D", data, "-d", p.conninfo(), "-X", "stream", "-c", "fast", "--no-sync", "--no-manifest"),
		os.WriteFile(filepath.Join(data, "postgresql.auto.conf"), nil, 0o600),
		os.WriteFile(filepath.Join(data, "standby.signal"), nil, 0o600),
	)
}

// CatchUp waits until the standby has replayed all that the primary had written when CatchUp was called.
func (p *Postgres) CatchUp(ctx context.Context) error {
	if p.primary == nil {
		return errNoStandby
	}
	position := "pg_current_wal_lsn()"
	if p.primary.primary != nil {
		position = "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END"
	}
	position, err := p.primary.Psql(ctx, "SELECT "+position)
	if err != nil {
		return err
	}
	return p.await(ctx, "pg_last_wal_replay_lsn() >= '"+position+"'")
}

// Disconnect ends the replication until Reconnect, and returns when the standby gets no more of it. What is committed
// then is lost if the standby is promoted.
func (p *Postgres) Disconnect(ctx context.Context) error {
	if p.primary == nil {
		return errNoStandby
	}
	if _, err := p.Psql(ctx, "ALTER SYSTEM SET primary_conninfo = ''; SELECT pg_reload_conf()"); err != nil {
		return err
	}
	return p.await(ctx, "NOT EXISTS (SELECT FROM pg_stat_wal_receiver)")
}

// Reconnect lets the replication go on, and returns when the standby streams again.
func (p *Postgres) Reconnect(ctx context.Context) error {
	if p.primary == nil {
		return errNoStandby
	}
	if _, err := p.Psql(ctx, "ALTER SYSTEM RESET primary_conninfo; SELECT pg_reload_conf()"); err != nil {
		return err
	}
	return p.await(ctx, "EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming')")
}

// Promote makes a standby a primary, on a timeline of its own, and returns when it takes writes. The old primary does
// not notice.
func (p *Postgres) Promote(ctx context.Context) error {
	if p.primary == nil {
		return errNoStandby
	}
	if _, err := p.Psql(ctx, "SELECT pg_promote()"); err != nil {
		return err
	}
	return p.await(ctx, "NOT pg_is_in_recovery()")
}

var errNoStandby = errors.New("testserver: server is no standby")

// await waits until a condition is true on the server.
func (p *Postgres) await(ctx context.Context, condition string) error {
	return poll(ctx, func(ctx context.Context) (missing string, err error) {
		answer, err := p.Psql(ctx, "SELECT "+condition)
		if err != nil || answer != "t" {
			return fmt.Sprintf("%s: %s: %v", condition, answer, err), nil
		}
		return "", nil
	})
}
