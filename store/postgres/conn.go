package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// layout is that of schema.sql.
const layout = 1

// Requests under way at once. Other requests leave connections to renewals, since they might wait for a lock, such as
// that of a leader's own transaction.
const (
	requests = 4
	renewals = 3
)

// greeting is what a connection said first. It is kept in the connection's CustomData.
type greeting struct {
	epoch    int64
	noSchema bool   // there is no schema yet
	warning  string // of the server since the request began
	name     string // of the connection; random
}

func greetingOf(c *pgconn.PgConn) *greeting { return c.CustomData()["greeting"].(*greeting) }

// dialed marks the contexts of connections that are made on purpose.
type dialed struct{}

// errNoCancel is why a request is not cancelled when its connection is given up. A commit that waits for a synchronous
// standby would end by that, and be visible without being on the standby.
var errNoCancel = errors.New("requests are not cancelled")

// connConfigs returns the settings of a connection to each server.
func (c Config) connConfigs() (list []*pgx.ConnConfig, err error) {
	config, err := pgx.ParseConfig("host=localhost port=5432 user=x dbname=x password=x sslmode=disable sslnegotiation=postgres " +
		"sslcertmode=allow channel_binding=prefer min_protocol_version=3.0 max_protocol_version=3.0 target_session_attrs=any")
	if err != nil {
		return nil, adapter.Refuse("environment", "", "a variable for PostgreSQL's tools can't be read: %v", err)
	}
	config.User, config.Password, config.Database = c.User, c.Password, c.Database
	config.RuntimeParams = map[string]string{"application_name": "leadership"}
	config.Fallbacks, config.RequireAuth = nil, ""
	config.ConnectTimeout = 2 * max(c.limit(), 2*time.Second)
	config.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil } // Dial does it
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if ctx.Value(dialed{}) == nil {
			return nil, errNoCancel
		}
		ctx, cancel := context.WithTimeout(ctx, c.limit()/2)
		defer cancel()
		return c.Dial(ctx, network, address)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // one round trip, also on a new connection
	config.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
		if g, ok := conn.CustomData()["greeting"].(*greeting); ok && n.SeverityUnlocalized == "WARNING" {
			g.warning = n.Message
		}
	}
	for _, address := range c.Addresses {
		one := config.Copy()
		host, text, _ := net.SplitHostPort(address)
		port, _ := strconv.ParseUint(text, 10, 16) // settings.Complete has checked it
		one.Host, one.Port = host, uint16(port)
		if c.TLS != nil {
			one.TLSConfig = c.TLS.Clone()
			one.TLSConfig.ServerName = cmp.Or(one.TLSConfig.ServerName, host)
		}
		list = append(list, one)
	}
	return list, nil
}

// connected greets on a new connection. The next server is tried if this one is not the present primary.
func (d *driver) connected(ctx context.Context, conn *pgconn.PgConn) error {
	if err := d.config.greet(ctx, conn); err != nil {
		return err
	}
	if g := greetingOf(conn); !g.noSchema && !d.inEpoch(g.epoch) {
		return errOldPrimary
	}
	return nil
}

// errOldPrimary says that a server knows of fewer failovers than another one has told.
var errOldPrimary = fmt.Errorf("%w: the server knows of fewer failovers than another one has told: it is an old primary, "+
	"or a copy of old data", store.ErrUnavailable)

// connect makes a connection. It tries the server that answered last, then the others in their order: one that takes
// connections and does not answer costs a timeout each time. A refusal counts only if no other server is out of reach:
// that one might be the primary.
func (d *driver) connect() (*pgx.Conn, error) {
	servers := slices.Clone(d.servers)
	if last := d.answered.Load(); last != nil {
		servers = append([]*pgx.ConnConfig{last}, slices.DeleteFunc(servers, func(c *pgx.ConnConfig) bool { return c == last })...)
	}
	var away, refusal error
	for _, server := range servers {
		conn, err := pgx.ConnectConfig(context.WithValue(d.life.Background, dialed{}, true), server)
		if err == nil {
			d.answered.Store(server)
			return conn, nil
		}
		switch err = d.unsent(err); {
		case errors.Is(err, errStandby):
			refusal = cmp.Or(refusal, err)
		case adapter.Uncertain(err):
			away = cmp.Or(away, err)
		case refusal == nil || errors.Is(refusal, errStandby):
			refusal = err
		}
	}
	if away != nil && refusal != nil {
		return nil, fmt.Errorf("%w; another server: %s", away, refusal)
	}
	return nil, cmp.Or(away, refusal)
}

// errStandby says that a server takes no changes.
var errStandby = fmt.Errorf("%w: the server is a standby", store.ErrUnavailable)

// greet says hello on a connection: one round trip. It makes the connection's settings those that the store needs,
// whatever the operator has set for the role or the database. The defaults for transactions count from the next
// transaction on, so hello has one of its own. A standby is not asked: hello is an error there, which the standby would
// log. lock_timeout also bounds a commit that waits for the lock of NOTIFY: statement_timeout does not, and the server
// notices only after the commit that the client has gone.
func (c Config) greet(ctx context.Context, conn *pgconn.PgConn) error {
	if version := conn.ParameterStatus("server_version"); major(version) < leastVersion {
		return adapter.Refuse("addresses", "", "the server says that it is PostgreSQL %s; elections need %d or later", version, leastVersion)
	}
	g := &greeting{name: rand.Text()}
	conn.CustomData()["greeting"] = g
	results, err := conn.Exec(ctx, fmt.Sprintf(`
BEGIN;
SET default_transaction_isolation = 'read committed';
SET default_transaction_read_only = off;
SET default_transaction_deferrable = off;
SET statement_timeout = %d;
SET lock_timeout = %d;
SET idle_session_timeout = 0;
SET client_encoding = 'UTF8';
SET client_min_messages = 'warning';
SET bytea_output = 'hex';
SET jit = off;
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN ('off', 'local');
COMMIT;
SELECT current_setting('server_encoding'), pg_is_in_recovery();
SELECT layout, epoch FROM %s.hello() WHERE (SELECT NOT pg_is_in_recovery());`, c.limit().Milliseconds(), c.limit().Milliseconds(), c.Schema)).ReadAll()
	var refused *pgconn.PgError
	for _, r := range results { // also if hello has failed, or its commit
		if len(r.Rows) != 1 || len(r.Rows[0]) != 2 {
			continue
		}
		switch first, second := string(r.Rows[0][0]), string(r.Rows[0][1]); {
		case second == "t":
			return errStandby
		case second == "f":
			if first != "UTF8" {
				return adapter.Refuse("database", c.Database, "its encoding is %s, and has to be UTF8", first)
			}
		case first != strconv.Itoa(layout):
			return adapter.Refuse("schema", c.Schema, "it has the layout %s, and this program knows layout %d: "+
				"all candidates and followers have to be of releases that know the same layout", first, layout)
		case err == nil:
			g.epoch, err = strconv.ParseInt(second, 10, 64)
		}
	}
	if errors.As(err, &refused) && isMissing(refused) {
		g.noSchema = true
		return nil
	}
	return err
}

// leastVersion has CREATE OR REPLACE TRIGGER.
const leastVersion = 14

// major returns the major version of a server, such as 15 for "15.18 (Debian)".
func major(version string) (major int) {
	_, _ = fmt.Sscanf(version, "%d", &major)
	return major
}

// isMissing reports whether an error says that the schema, or a part of it, does not exist.
func isMissing(err *pgconn.PgError) bool {
	return err.Code == "3F000" || err.Code == "42883" || err.Code == "42P01"
}

// acquire takes a connection that has said hello. There might be no schema yet. The caller gives it back.
func (d *driver) acquire(ctx context.Context) (*conn, error) {
	c, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.greeted(c.Conn); err != nil {
		_ = c.PgConn().Conn().Close()
		_ = c.Close(context.Background())
		d.give(c)
		return nil, err
	}
	return c, nil
}

// greeted finds out whether a connection is to the present primary. If there was no schema when the connection said
// hello, it says hello again.
func (d *driver) greeted(conn *pgx.Conn) error {
	if greetingOf(conn.PgConn()).noSchema {
		defer d.bound(conn)()
		if err := d.config.greet(context.Background(), conn.PgConn()); err != nil {
			return d.unsent(err)
		}
	}
	if g := greetingOf(conn.PgConn()); !g.noSchema && !d.inEpoch(g.epoch) {
		return errOldPrimary
	}
	return nil
}

// limit is how long a request may take. The server gives it up then, too.
func (c Config) limit() time.Duration { return min(c.TTL, 30*time.Second) }

// bound closes a connection when the next request has taken too long, or the driver is closed. The caller calls done
// when the request has been answered. A context would make the client send a request to cancel.
func (d *driver) bound(conn *pgx.Conn) (done func()) {
	ctx, cancel := context.WithTimeout(d.life.Background, d.config.limit())
	stop := context.AfterFunc(ctx, func() { _ = conn.PgConn().Conn().Close() })
	return func() { stop(); cancel() }
}

// inEpoch reports whether an epoch is the latest that a connection has told. If it is a later one, what was told before
// might be wrong: the watches of leaders end, entries are read again, and until then no renewal counts.
func (d *driver) inEpoch(epoch int64) bool {
	d.mu.Lock()
	later := epoch > d.epoch && d.known
	if !d.known { // nothing has been told
		d.readEpoch = epoch
	}
	d.over = d.over || later
	d.epoch, d.known = max(d.epoch, epoch), true
	latest := epoch == d.epoch
	if later {
		d.link.wake()
	}
	d.mu.Unlock()
	if later {
		d.config.Logger.Warn("the server has failed over: transactions might be lost, and no ballot is cast for the longest ttl of a session",
			"store", d.life.Name)
	}
	return latest
}

// unsent is the error of a request for which there was no connection.
func (d *driver) unsent(err error) error {
	var refused *pgconn.PgError
	var field *store.FieldError
	switch {
	case errors.As(err, &refused):
		if refused.Code == "28000" && d.config.TLS == nil && strings.Contains(refused.Message, "encryption") {
			return fmt.Errorf("%w: %w", store.ErrDenied, adapter.HintTLS(refused, "postgres", false))
		}
		return d.explain(refused, store.ErrUnavailable)
	case errors.As(err, &field):
		return field
	case d.config.TLS != nil && strings.Contains(err.Error(), "refused TLS"):
		err = adapter.HintTLS(err, "postgres", true)
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// query sends one statement, and returns its rows as values of T. If ctx ends first, query returns soon, and the
// request goes on: cutting it short would cost its connection. places bounds how many are under way. sent is the time
// before the statement was sent.
func query[T any](ctx context.Context, d *driver, places chan struct{}, sql string, args ...any) (rows []T, sent store.Instant, err error) {
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		return nil, sent, fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
	}
	conn, err := d.acquire(ctx)
	if err != nil {
		<-places
		return nil, sent, err
	}
	type answer struct {
		rows []T
		err  error
	}
	answered := make(chan answer, 1)
	sent = store.Now()
	started := d.life.Go(func() {
		defer func() { <-places }()
		defer d.give(conn)
		rows, err := send[T](d, conn.Conn, sql, args...)
		answered <- answer{rows, err}
	})
	if !started {
		d.give(conn)
		<-places
		return nil, sent, fmt.Errorf("%w: %w", store.ErrUnavailable, store.ErrClosed)
	}
	select {
	case a := <-answered:
		return a.rows, sent, a.err
	case <-ctx.Done():
		return nil, sent, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, context.Cause(ctx))
	}
}

// send sends one statement on a connection.
func send[T any](d *driver, conn *pgx.Conn, sql string, args ...any) (list []T, err error) {
	g := greetingOf(conn.PgConn())
	if g.noSchema {
		return nil, errNoSchema
	}
	g.warning = ""
	defer d.bound(conn)()
	rows, err := conn.Query(context.Background(), sql, args...)
	if err == nil {
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	}
	var refused *pgconn.PgError
	switch {
	case err == nil && g.warning != "": // such as that a commit might not be on the standby
		return nil, fmt.Errorf("%w: the server warns: %s", store.ErrUnknownOutcome, g.warning)
	case err == nil:
		return list, nil
	case errors.As(err, &refused) && isMissing(refused):
		g.noSchema = true
		return nil, errNoSchema
	}
	if conn.IsClosed() {
		d.lostConnection()
	}
	if refused != nil {
		return nil, d.explain(refused, store.ErrUnknownOutcome)
	}
	if pgconn.SafeToRetry(err) {
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return nil, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
}
