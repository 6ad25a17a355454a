package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// driver implements engine.Driver. Each request is one statement, which calls one function of schema.sql.
//
// Its goroutines are attend, which has a connection of its own, one for each request under way on another one, and
// those that make and close connections. Close waits for them all.
type driver struct {
	config Config
	life   *adapter.Lifecycle
	pool   pool

	requests, renewals chan struct{}          // how many are under way
	losses             atomic.Uint64          // of connections
	servers            []*pgx.ConnConfig      // as Config lists them
	answered           atomic.Pointer[string] // the address that a connection was made to last
	silent             atomic.Pointer[string] // the address that has not answered in time, until it answers a renewal
	reread             chan struct{}          // has room for one: everything that is watched has been read after a failover
	start              sync.Once              // of the goroutines
	patience           time.Duration          // how long an answer on the link may take. Only attend uses it

	mu        sync.Mutex
	epoch     int64             // guarded by mu, as are all below: the latest that a connection has told
	known     bool              // whether one has
	over      bool              // the watches of leaders have to end
	readEpoch int64             // the epoch in which everything that is watched was last read
	readAt    time.Time         // when that was
	opening   string            // the name of a session whose opening was not answered
	unwatched map[int64]entered // by token
	link      link
	watches   watches
	marks     marks
	proving   bool // what is known of marks is being written
}

func newDriver(config Config) (*driver, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	servers, err := config.connConfigs()
	if err != nil {
		return nil, err
	}
	rest := strings.Join(config.Addresses, ",") + "/" + config.Database
	if config.Prefix != "" {
		rest += "/" + config.Prefix
	}
	d := &driver{
		config: config, servers: servers, life: adapter.NewLifecycle("postgres", config.TLS != nil, rest),
		requests: make(chan struct{}, requests), renewals: make(chan struct{}, renewals),
		pool: pool{silent: map[chan struct{}]int{}}, patience: config.patience(),
		reread: make(chan struct{}, 1), link: link{changed: make(chan struct{})}, watches: newWatches(), marks: marks{},
		unwatched: map[int64]entered{},
	}
	for _, server := range servers {
		server.ValidateConnect = d.connected
	}
	return d, nil
}

// name returns the name of an election in the database.
func (d *driver) name(election string) string {
	if d.config.Prefix == "" {
		return election
	}
	return d.config.Prefix + "/" + election
}

// call is how a function of the schema is called.
func (d *driver) call(function string) string {
	return "SELECT * FROM " + d.config.Schema + "." + function
}

// ask sends a request that is neither a renewal nor a look.
func ask[T any](ctx context.Context, d *driver, function string, args ...any) ([]T, error) {
	if err := d.linked(ctx); err != nil {
		return nil, err
	}
	rows, _, err := query[T](ctx, d, d.requests, d.call(function), args...)
	return rows, err
}

// read is ask for what is empty before anything has been kept.
func read[T any](ctx context.Context, d *driver, function string, args ...any) ([]T, error) {
	rows, err := ask[T](ctx, d, function, args...)
	if errors.Is(err, errNoSchema) {
		return nil, nil
	}
	return rows, err
}

// nothing is the row of a function that returns nothing.
type nothing struct{ Void any }

// key and token translate between the engine's name of an entry and the entry's token.
func key(token int64) string { return strconv.FormatInt(token, 10) }

func token(key string) int64 {
	t, _ := strconv.ParseInt(key, 10, 64) // made by key
	return t
}

// place is what is ahead of an entry.
func place(nearest *int64, more bool) engine.Place {
	if nearest == nil {
		return engine.Place{}
	}
	return engine.Place{Nearest: key(*nearest), More: more}
}

// Ahead implements engine.Driver.
func (d *driver) Ahead(ctx context.Context, e engine.Entry) (engine.Place, error) {
	type row struct {
		Stands  bool
		Nearest *int64
		More    bool
	}
	rows, err := read[row](ctx, d, "ahead($1, $2)", d.name(e.Election), int64(e.Token))
	switch {
	case err != nil:
		return engine.Place{}, err
	case len(rows) == 0 || !rows[0].Stands:
		d.forgetEntries(func(token int64, _ entered) bool { return token == int64(e.Token) })
		return engine.Place{}, engine.ErrGone
	}
	return place(rows[0].Nearest, rows[0].More), nil
}

// queueRow is a row of the function queue.
type queueRow struct {
	Token   int64
	Session string
	Nonce   string
	Value   []byte
	Resign  bool
	Mark    int64
	TTL     int64
}

// First implements engine.Driver.
func (d *driver) First(ctx context.Context, election string) (engine.State, error) {
	rows, err := read[queueRow](ctx, d, "queue($1, 1)", d.name(election))
	if err != nil || len(rows) == 0 {
		return engine.State{}, err
	}
	r := rows[0]
	return engine.State{Token: uint64(r.Token), Session: r.Session, Nonce: r.Nonce, Resign: r.Resign}, nil
}

// standingRow is a row of the function standing. Silence is nil if it is not known.
type standingRow struct {
	queueRow
	Silence *int64
}

// Ballots implements engine.Driver. Those of sessions that are found to be dead are left out.
func (d *driver) Ballots(ctx context.Context, election string) (list []store.Standing, err error) {
	rows, err := d.standing(ctx, d.name(election))
	now := time.Now()
	for _, r := range rows {
		if d.note(r.Session, r.Mark, r.TTL, now) {
			continue
		}
		silence := -time.Millisecond
		if r.Silence != nil {
			silence = max(time.Duration(*r.Silence), 1) * time.Millisecond // 0 says that the service ends sessions
		}
		list = append(list, store.Standing{Value: string(r.Value), Token: uint64(r.Token), Asked: r.Resign, Silence: silence})
	}
	return list, err
}

// standing reads the ballots of an election. If an earlier release has made the schema, or granted the rights, there is
// no function standing, and the function queue does not tell the silence of sessions.
func (d *driver) standing(ctx context.Context, election string) ([]standingRow, error) {
	rows, err := ask[standingRow](ctx, d, "standing($1)", election)
	if !errors.Is(err, errNoSchema) && !errors.Is(err, store.ErrDenied) {
		return rows, err
	}
	old, err := read[queueRow](ctx, d, "queue($1, null)", election)
	for _, r := range old {
		rows = append(rows, standingRow{queueRow: r})
	}
	return rows, err
}

// Elections implements engine.Driver.
func (d *driver) Elections(ctx context.Context) (names []string, err error) {
	type row struct{ Name string }
	prefix := d.name("")
	rows, err := read[row](ctx, d, "elections($1)", prefix)
	for _, r := range rows {
		names = append(names, strings.TrimPrefix(r.Name, prefix))
	}
	return names, err
}

// RequestResignation implements engine.Driver.
func (d *driver) RequestResignation(ctx context.Context, election string, token uint64) error {
	_, err := read[nothing](ctx, d, "ask($1, $2)", d.name(election), int64(token))
	return err
}

// Clear implements engine.Driver.
func (d *driver) Clear(ctx context.Context, election string) error {
	var one *string
	if election != "" {
		name := d.name(election)
		one = &name
	}
	_, err := read[nothing](ctx, d, "clear($1, $2)", one, d.name(""))
	return err
}

// Close implements engine.Driver.
func (d *driver) Close() error {
	d.life.Stop()
	d.life.Wait()
	d.pool.close()
	return nil
}

// install creates the schema, if there is none.
func (d *driver) install(ctx context.Context) error {
	sql, err := Schema(d.config.Schema)
	if err != nil {
		return err
	}
	conn, err := d.acquire(ctx)
	if err != nil {
		return err
	}
	defer d.give(conn)
	if !greetingOf(conn.PgConn()).noSchema {
		return nil
	}
	done := d.bound(conn.Conn, d.config.limit())
	_, err = conn.PgConn().Exec(context.Background(), sql).ReadAll()
	done()
	_ = conn.Close(context.Background()) // a transaction might be open; the next connection says hello
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused) && refused.Code == "42501":
		return fmt.Errorf("%w: there is no schema %s with what elections need, and the role %q may not create it: let the owner "+
			"of the database run what leadership schema postgres prints: %w", store.ErrDenied, d.config.Schema, d.config.User, err)
	}
	if refused != nil {
		return fmt.Errorf("create the schema %s: %w", d.config.Schema, d.explain(refused, store.ErrUnknownOutcome))
	}
	return fmt.Errorf("%w: create the schema %s: %w", store.ErrUnknownOutcome, d.config.Schema, err)
}
