package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Requests under way at once. Those that are no renewals might wait for a lock, such as that of a leader's own
// transaction, so they leave connections to renewals.
const (
	requests = 4
	renewals = 3
)

// limit is how long a request may take. The server gives a request up sooner, unless it commits.
func (c Config) limit() time.Duration { return min(c.TTL, 30*time.Second) }

// bound closes a connection when the next request has taken too long, or the driver is closed. The caller calls done
// when the request has been answered. A context would make the client send a request to cancel.
func (d *driver) bound(conn *pgx.Conn) (done func()) {
	ctx, cancel := context.WithTimeout(d.life.Background, d.config.limit())
	stop := context.AfterFunc(ctx, func() { _ = conn.PgConn().Conn().Close() })
	return func() { stop(); cancel() }
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
		if err == nil && !d.inEpoch(greetingOf(conn.PgConn()).epoch) {
			err = fmt.Errorf("%w: %s", store.ErrUnknownOutcome, errOldPrimary)
		}
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
