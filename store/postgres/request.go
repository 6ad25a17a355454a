package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

// patience is how long an answer may take until the connection counts as silent. A renewal that has no answer then leaves
// its place to the next one, which goes over another connection. It is not cut short: a late answer counts, too. After a
// probe each quarter of the TTL, this keeps what a follower knows no older than half a TTL.
func (c Config) patience() time.Duration { return max(c.limit()/6, time.Second/4) }

// bound closes a connection when the next request has taken too long, or the driver is closed. The caller calls done
// when the request has been answered. A context would make the client send a request to cancel.
func (d *driver) bound(conn *pgx.Conn, limit time.Duration) (done func()) {
	ctx, cancel := context.WithTimeout(d.life.Background, limit)
	stop := context.AfterFunc(ctx, func() { _ = conn.PgConn().Conn().Close() })
	return func() { stop(); cancel() }
}

// query sends one statement, and returns its rows as values of T. If ctx ends first, query returns soon, and the
// request goes on: cutting it short would cost its connection. places bounds how many are under way. sent is the time
// before the statement was sent.
func query[T any](ctx context.Context, d *driver, places chan struct{}, sql string, args ...any) (rows []T, sent store.Instant, err error) {
	if err := occupy(ctx, places); err != nil {
		return nil, sent, err
	}
	return queryFrom[T](ctx, d, places, sql, args...)
}

// occupy takes one of the places for requests under way.
func occupy(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
	}
}

// queryFrom is query for a caller that has taken a place, which queryFrom gives back.
func queryFrom[T any](ctx context.Context, d *driver, places chan struct{}, sql string, args ...any) (rows []T, sent store.Instant, err error) {
	leave := sync.OnceFunc(func() { <-places })
	conn, err := d.acquire(ctx)
	if err != nil {
		leave()
		return nil, sent, err
	}
	type answer struct {
		rows []T
		err  error
	}
	answered := make(chan answer, 1)
	uses := d.inUse(conn)
	sent = store.Now()
	started := d.life.Go(func() {
		defer leave()
		defer d.give(conn)
		silent := time.AfterFunc(d.config.patience(), func() {
			if d.setApart(conn, uses, places) {
				leave()
			}
		})
		defer silent.Stop()
		rows, err := send[T](d, conn.Conn, d.config.limit(), sql, args...)
		if err == nil && places == d.renewals { // which are changes, and wait for the commit
			d.answers(conn.address)
		}
		if err == nil && !d.inEpoch(greetingOf(conn.PgConn()).epoch) {
			err = fmt.Errorf("%w: %s", store.ErrUnknownOutcome, errOldPrimary)
		}
		answered <- answer{rows, err}
	})
	if !started {
		d.give(conn)
		leave()
		return nil, sent, fmt.Errorf("%w: %w", store.ErrUnavailable, store.ErrClosed)
	}
	select {
	case a := <-answered:
		return a.rows, sent, a.err
	case <-ctx.Done():
		return nil, sent, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, context.Cause(ctx))
	}
}

// send sends one statement on a connection, which is closed if there is no answer within the limit.
func send[T any](d *driver, conn *pgx.Conn, limit time.Duration, sql string, args ...any) (list []T, err error) {
	g := greetingOf(conn.PgConn())
	if g.noSchema {
		return nil, errNoSchema
	}
	g.warning = ""
	defer d.bound(conn, limit)()
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
