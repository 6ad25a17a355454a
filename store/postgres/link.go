package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// link is the state of the connection that listens. The driver's mu guards it.
type link struct {
	changed chan struct{} // closed and replaced when one of the others has changed
	proved  bool          // a notification has come through once
	tries   int           // how many tries to connect have failed
	failed  error         // why the last one did
}

// linked waits until a notification has come through once since the store was opened, or the next try has failed. Through a
// pooler that gives each transaction another connection none comes, and settings of one program get into others.
func (d *driver) linked(ctx context.Context) error {
	d.start.Do(func() {
		d.life.Go(d.listen)
		d.life.Go(d.look)
	})
	d.mu.Lock()
	tries := d.link.tries
	for {
		l := d.link
		d.mu.Unlock()
		switch {
		case l.proved:
			return nil
		case l.tries > tries:
			return l.failed
		}
		select {
		case <-l.changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
		case <-d.life.Background.Done():
			return fmt.Errorf("%w: %w", store.ErrUnavailable, store.ErrClosed)
		}
		d.mu.Lock()
	}
}

func (l *link) change() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// listen keeps the connection that listens until the driver is closed.
func (d *driver) listen() {
	for wait := (adapter.Retries{}); d.life.Background.Err() == nil; {
		proved, err := d.listenOnce()
		if proved {
			wait.Reset()
		}
		d.mu.Lock()
		d.link.tries++
		d.link.failed = err
		d.link.change()
		d.mu.Unlock()
		wait.Pause(d.life.Background)
	}
}

// errPooler says that notifications do not come through.
var errPooler = adapter.Refuse("addresses", "", "no notification comes through: this looks like a connection pooler in "+
	"transaction mode. Connect to the server itself, or use the mode session")

// listenOnce connects, and takes notifications until the connection is lost. It reports whether one came through.
func (d *driver) listenOnce() (proved bool, err error) {
	ctx := context.WithValue(d.life.Background, dialed{}, true)
	conn, err := pgx.ConnectConfig(ctx, d.conn)
	if err != nil {
		return false, d.unsent(err)
	}
	defer shut(conn)
	stop := context.AfterFunc(ctx, func() { _ = conn.PgConn().Conn().Close() })
	defer stop()
	if err := d.execute(conn, "LISTEN "+d.config.Schema); err != nil {
		return false, err
	}
	if err := d.prove(ctx, conn); err != nil {
		return false, err
	}
	d.mu.Lock()
	d.link.proved = true
	d.link.change()
	d.watches.all = true // what came before is lost
	d.mu.Unlock()
	d.bell()
	for {
		note, err := d.receive(conn, d.config.TTL/4)
		switch {
		case note != nil:
			d.mu.Lock()
			d.watches.notes = append(d.watches.notes, note.Payload)
			d.mu.Unlock()
			d.bell()
		case pgconn.Timeout(err):
			if err := d.execute(conn, "-- is the connection there?"); err != nil {
				d.lostConnection()
				return true, err
			}
		default:
			d.lostConnection()
			return true, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
		}
	}
}

// execute runs a statement on the connection that listens.
func (d *driver) execute(conn *pgx.Conn, sql string) error {
	defer d.bound(conn)()
	_, err := conn.PgConn().Exec(context.Background(), sql).ReadAll()
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return nil
}

// receive waits for a notification.
func (d *driver) receive(conn *pgx.Conn, limit time.Duration) (*pgconn.Notification, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return conn.WaitForNotification(ctx)
}

// prove sends a notification on another connection, and waits until it comes.
func (d *driver) prove(ctx context.Context, conn *pgx.Conn) error {
	text := "hello " + rand.Text()
	ctx, cancel := context.WithTimeout(ctx, d.config.TTL)
	defer cancel()
	if err := d.notify(ctx, text); err != nil {
		return err
	}
	for limit := time.Now().Add(d.config.TTL); ; {
		note, err := d.receive(conn, time.Until(limit))
		switch {
		case pgconn.Timeout(err):
			return errPooler
		case err != nil:
			return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
		case note.Payload == text:
			return nil
		}
	}
}

// notify sends a notification.
func (d *driver) notify(ctx context.Context, text string) error {
	conn, err := d.acquire(ctx)
	if err != nil {
		return err
	}
	defer d.give(conn)
	return d.execute(conn.Conn, fmt.Sprintf("SELECT pg_notify('%s', '%s')", d.config.Schema, text))
}
