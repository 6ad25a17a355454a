package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// layout is that of schema.sql.
const layout = 1

// greeting is what a connection said first. It is kept in the connection's CustomData.
type greeting struct {
	epoch    int64
	noSchema bool   // there is no schema yet
	warning  string // of the server since the request began
	name     string // of the connection; random
	looked   bool   // the first look was answered
}

func greetingOf(c *pgconn.PgConn) *greeting { return c.CustomData()["greeting"].(*greeting) }

// dialed marks the contexts of connections that are made on purpose.
type dialed struct{}

// errNoCancel is why a request is not cancelled when its connection is given up. A commit that waits for a synchronous
// standby would end by that, and be visible without being on the standby.
var errNoCancel = errors.New("requests are not cancelled")

// connConfigs returns the settings of a connection to each server.
func (c Config) connConfigs() (list []*pgx.ConnConfig, err error) {
	config, err := emptyConfig()
	if err != nil {
		return nil, err
	}
	config.User, config.Password, config.Database = c.User, "", c.Database // connect has the password
	config.RuntimeParams = map[string]string{"application_name": "leadership"}
	config.Fallbacks, config.RequireAuth = nil, ""
	config.ConnectTimeout = 2 * max(c.limit(), 2*time.Second)
	config.DialFunc = func(ctx context.Context, _, address string) (net.Conn, error) {
		if ctx.Value(dialed{}) == nil {
			return nil, errNoCancel
		}
		return c.dialer.Dial(ctx, address)
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

// emptyConfig returns settings without those of the environment. The client library reads the environment, and takes
// no settings that it has not made. The setting service can't be replaced by none, so PGSERVICE is by a service without
// settings, in a file. With the directory of a socket as the host, no file for TLS is read.
func emptyConfig() (*pgx.ConnConfig, error) {
	settings := "host=/ port=5432 user=x dbname=x password=x sslmode=disable sslnegotiation=postgres sslcertmode=allow connect_timeout=0 " +
		"channel_binding=prefer require_auth='' min_protocol_version=3.0 max_protocol_version=3.0 target_session_attrs=any"
	if os.Getenv("PGSERVICE") != "" {
		file, err := os.CreateTemp("", "leadership-")
		if err != nil {
			return nil, adapter.Refuse("environment", "PGSERVICE", "it can't be replaced: %v", err)
		}
		defer func() { _ = os.Remove(file.Name()) }()
		_, err = file.WriteString("[none]\n")
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, adapter.Refuse("environment", "PGSERVICE", "it can't be replaced: %v", err)
		}
		settings += " service=none servicefile='" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(file.Name()) + "'"
	}
	config, err := pgx.ParseConfig(settings)
	if err != nil {
		return nil, adapter.Refuse("environment", "", "a variable for PostgreSQL's tools can't be read: %v", err)
	}
	return config, nil
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

// target is one address of a server. Each address of a name is a server of its own: one of them is the primary.
type target struct {
	server  *pgx.ConnConfig
	address string // with the port
	unknown error  // why the server's name can't be looked up
}

// targets looks all servers up.
func (d *driver) targets(ctx context.Context) (list []target) {
	ctx, cancel := context.WithTimeout(ctx, d.config.limit()/2)
	defer cancel()
	for _, server := range d.servers {
		addresses, err := d.config.dialer.Addresses(ctx, net.JoinHostPort(server.Host, strconv.Itoa(int(server.Port))))
		if err != nil {
			list = append(list, target{unknown: err})
		}
		for _, address := range addresses {
			list = append(list, target{server: server, address: address})
		}
	}
	return list
}

// dial makes a connection to an address. The limit is for TCP alone. silent is called if the rest takes longer than the
// pause.
func (t target) dial(ctx context.Context, limit time.Duration, password string, pause time.Duration, silent func()) (*pgx.Conn, error) {
	if t.unknown != nil {
		return nil, t.unknown
	}
	config := t.server.Copy()
	config.Password = password
	config.LookupFunc = func(context.Context, string) ([]string, error) { return []string{t.address}, nil }
	reach := config.DialFunc
	ended, end := context.WithCancel(ctx)
	defer end()
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		conn, err := reach(ctx, network, address)
		if err == nil {
			timer := time.AfterFunc(pause, silent)
			context.AfterFunc(ended, func() { timer.Stop() })
		}
		return conn, err
	}
	return pgx.ConnectConfig(context.WithValue(ctx, dialed{}, true), config)
}

// password returns the password of the moment.
func (d *driver) password(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, d.config.limit())
	defer cancel()
	return d.config.PasswordFunc(ctx)
}

// connect makes a connection. A server that stands still takes connections and says nothing, and another one might become
// the primary meanwhile. So beside a try that waits for such a server, connect begins another one, which tries that server
// last. The first that ends decides. Each waits for twice as long as the one before. If there is one address, one try is
// enough.
func (d *driver) connect() (*pgx.Conn, error) {
	type try struct {
		conn *pgx.Conn
		err  error
	}
	ctx, cancel := context.WithCancel(d.life.Background)
	defer cancel()
	password, err := d.password(ctx)
	if err != nil {
		return nil, err
	}
	targets := d.targets(ctx)
	ended, waits := make(chan try), make(chan struct{})
	for pause := d.config.patience(); ; pause *= 2 {
		started := d.life.Go(func() {
			conn, err := d.connectTo(ctx, targets, password, pause, func() {
				select {
				case waits <- struct{}{}:
				case <-ctx.Done():
				}
			})
			select {
			case ended <- try{conn, err}:
			case <-ctx.Done():
				if err == nil {
					shut(conn)
				}
			}
		})
		if !started {
			return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, store.ErrClosed)
		}
		select {
		case t := <-ended:
			return t.conn, t.err
		case <-waits:
		case <-ctx.Done(): // a try that ends then might not tell
			return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, store.ErrClosed)
		}
	}
}

// connectTo tries the server that answered last, then the others in their order: one that takes connections and does not
// answer costs a timeout each time. A server that takes connections and has not answered a request in time is tried last:
// it might be an old primary, whose commits wait for a standby that was promoted. A refusal counts only if no other server
// is out of reach: that one might be the primary. The addresses share the time that servers which do not take connections
// may cost. waits is called once if a server takes the connection and says nothing for the pause, and there are others.
func (d *driver) connectTo(ctx context.Context, targets []target, password string, pause time.Duration, waits func()) (*pgx.Conn, error) {
	waits = sync.OnceFunc(waits)
	if last := d.answered.Load(); last != nil {
		if at := slices.IndexFunc(targets, func(t target) bool { return t.address == *last }); at > 0 {
			targets = slices.Concat(targets[at:at+1], targets[:at], targets[at+1:])
		}
	}
	if silent := d.silent.Load(); silent != nil {
		if at := slices.IndexFunc(targets, func(t target) bool { return t.address == *silent }); at >= 0 {
			targets = slices.Concat(targets[:at], targets[at+1:], targets[at:at+1])
		}
	}
	limit := max(d.config.limit()/2/time.Duration(len(targets)), d.config.limit()/8)
	var away, refusal error
	for _, t := range targets {
		conn, err := t.dial(ctx, limit, password, pause, func() {
			if len(targets) > 1 {
				d.silent.Store(&t.address)
				waits()
			}
		})
		if err == nil {
			d.answered.Store(&t.address)
			conn.PgConn().CustomData()["address"] = t.address
			return conn, nil
		}
		switch err = d.unsent(err); {
		case ctx.Err() != nil: // another try has ended
			return nil, err
		case errors.Is(err, errStandby):
			refusal = cmp.Or(refusal, fmt.Errorf("%w: %s", errStandby, t.address))
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

// addressOf returns the address that a connection was made to.
func addressOf(c *pgx.Conn) string {
	address, _ := c.PgConn().CustomData()["address"].(string)
	return address
}

// errStandby says that a server takes no changes.
var errStandby = fmt.Errorf("%w: the server is a standby", store.ErrUnavailable)

// greet says hello on a connection: one round trip. It makes the connection's settings those that the store needs,
// whatever the operator has set for the role or the database. The defaults for transactions count from the next
// transaction on, so hello has one of its own. PostgreSQL 17 and later have transaction_timeout. A standby is not
// asked: hello is an error there, which the standby would log. lock_timeout also bounds a commit that waits for the
// lock of NOTIFY: statement_timeout does not, and the server notices only after the commit that the client has gone.
func (c Config) greet(ctx context.Context, conn *pgconn.PgConn) error {
	if version := conn.ParameterStatus("server_version"); major(version) < leastVersion {
		return adapter.Refuse("addresses", "", "the server says that it is PostgreSQL %s; elections need %d or later", version, leastVersion)
	}
	timeout := (c.limit() * 3 / 4).Milliseconds() // the server gives a request up first, so that there is an answer
	g := &greeting{name: rand.Text()}
	conn.CustomData()["greeting"] = g
	results, err := conn.Exec(ctx, fmt.Sprintf(`
BEGIN ISOLATION LEVEL READ COMMITTED;
SET statement_timeout = %d;
SET lock_timeout = %d;
SET default_transaction_isolation = 'read committed';
SET default_transaction_read_only = off;
SET default_transaction_deferrable = off;
SET idle_session_timeout = 0;
SET client_encoding = 'UTF8';
SET client_min_messages = 'warning';
SET bytea_output = 'hex';
SET jit = off;
SELECT set_config('transaction_timeout', '0', false) WHERE current_setting('transaction_timeout', true) IS NOT NULL;
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN ('off', 'local');
COMMIT;
SELECT current_setting('server_encoding'), pg_is_in_recovery();
SELECT layout, epoch FROM %s.hello() WHERE (SELECT NOT pg_is_in_recovery());`, timeout, timeout, c.Schema)).ReadAll()
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

// isMissing reports whether an error says that the schema, or the function that was called, does not exist. If it is of
// a statement within a function, that is another error: Where says so.
func isMissing(err *pgconn.PgError) bool {
	return err.Where == "" && (err.Code == "3F000" || err.Code == "42883" || err.Code == "42P01")
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
		defer d.bound(conn, d.config.limit())()
		if err := d.config.greet(context.Background(), conn.PgConn()); err != nil {
			return d.unsent(err)
		}
	}
	if g := greetingOf(conn.PgConn()); !g.noSchema && !d.inEpoch(g.epoch) {
		return errOldPrimary
	}
	return nil
}
