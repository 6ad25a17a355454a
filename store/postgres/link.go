package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/jackc/pgx/v5"
)

// link is the state of the connection that listens, and on which everything that is watched is read. The driver's mu
// guards it.
type link struct {
	changed chan struct{} // closed and replaced when proved or tries has changed
	proved  bool          // a notification has come through once
	tries   int           // how many tries to connect have failed
	failed  error         // why the last one did

	due  bool               // there is something to do
	stop context.CancelFunc // ends the last wait for a notification; nil before the first
}

// wake makes attend look for what is to be done. The caller holds mu.
func (l *link) wake() {
	l.due = true
	if l.stop != nil {
		l.stop()
	}
}

func (l *link) change() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// begin starts the driver's goroutine.
func (d *driver) begin() {
	d.start.Do(func() { d.life.Go(d.attend) })
}

// linked waits until a notification has come through once since the store was opened, or the next try has failed.
// Through a pooler that gives each transaction another connection none comes, and settings of one program get into
// others.
func (d *driver) linked(ctx context.Context) error {
	d.begin()
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
		}
		d.mu.Lock()
	}
}

// attend keeps the connection that listens until the driver is closed. When it is lost, all that wait for a read get
// the error, and everything is read again on the next one: what was notified meanwhile is lost.
func (d *driver) attend() {
	for wait := (adapter.Retries{}); d.life.Background.Err() == nil; {
		worked, err := d.attendOnce()
		if worked {
			wait.Reset()
		}
		d.mu.Lock()
		waiting := batch{fresh: d.watches.fresh, confirmed: d.watches.confirmed}
		waiting.answer(err)
		d.watches.fresh, d.watches.confirmed, d.watches.all = nil, nil, true
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

// attendOnce connects, and takes notifications and reads what is watched until the connection is lost. It reports
// whether it has read once, or had nothing to read.
func (d *driver) attendOnce() (worked bool, err error) {
	ctx := d.life.Background
	conn, err := d.connect()
	if err != nil {
		return false, err
	}
	defer shut(conn)
	defer context.AfterFunc(ctx, func() { _ = conn.PgConn().Conn().Close() })()
	if err := d.execute(conn, "LISTEN "+d.config.Schema); err != nil {
		return false, err
	}
	if err := d.prove(ctx, conn); err != nil {
		return false, err
	}
	d.mu.Lock()
	d.link.proved = true
	d.link.change()
	d.mu.Unlock()
	for {
		if err = d.greeted(conn); err == nil {
			if b := d.next(); b.empty() {
				err = d.rest(conn)
			} else {
				err = d.look(conn, b)
			}
		}
		if conn.IsClosed() {
			d.lostConnection()
		}
		if err != nil {
			return worked, err
		}
		worked = true
	}
}

// rest waits for a notification, until there is something to do, or until a mark will have stood for its TTL. Each
// quarter of the TTL it finds out whether the connection is there, unless something was read meanwhile.
func (d *driver) rest(conn *pgx.Conn) error {
	d.mu.Lock()
	now := time.Now()
	d.marks.forget(now, d.config.TTL)
	until, due := now.Add(d.config.TTL/4), d.marks.due()
	watched := !due.IsZero() && due.Before(until)
	if watched {
		until = due
		if least := d.readAt.Add(d.config.TTL / 40); until.Before(least) {
			until = least
		}
	}
	if d.link.due {
		d.link.due = false
		d.mu.Unlock()
		return nil
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	d.link.stop = cancel
	d.mu.Unlock()
	note, err := conn.WaitForNotification(ctx)
	cancel()
	var notes []string
	for ; note != nil; note, _ = conn.WaitForNotification(ctx) { // those that have come meanwhile: they are read together
		notes = append(notes, note.Payload)
	}
	d.mu.Lock()
	woken := d.link.due
	d.link.due = false
	d.watches.notes = append(d.watches.notes, notes...)
	d.watches.all = d.watches.all || watched && len(notes) == 0
	d.mu.Unlock()
	switch {
	case len(notes) > 0:
		return nil
	case conn.IsClosed():
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	case woken || watched:
		return nil
	}
	return d.execute(conn, "-- is the connection there?")
}

// execute runs a statement on the connection that listens.
func (d *driver) execute(conn *pgx.Conn, sql string) error {
	defer d.bound(conn, d.patience)()
	defer d.listens(conn, time.Now())
	_, err := conn.PgConn().Exec(context.Background(), sql).ReadAll()
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return nil
}

// listens notes after a request how long the next answer may take. If none has come, the next one has twice as long: a
// server might be slow, and always need as long.
func (d *driver) listens(conn *pgx.Conn, sent time.Time) {
	switch {
	case conn.IsClosed():
		d.patience = min(2*d.patience, d.config.limit())
		address := addressOf(conn)
		d.silent.Store(&address)
	case time.Since(sent) < d.config.patience()/2:
		d.patience = d.config.patience()
	}
}

// prove sends a notification on another connection, and waits until it comes.
func (d *driver) prove(ctx context.Context, conn *pgx.Conn) error {
	text := "hello " + rand.Text()
	if err := d.notify(ctx, text); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(max(d.config.TTL, 5*time.Second), 10*time.Second))
	defer cancel()
	for asked := false; ; {
		note, err := conn.WaitForNotification(ctx)
		switch {
		case err == nil && note.Payload == text:
			return nil
		case err == nil:
		case conn.IsClosed():
			return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
		case asked: // what was notified on this connection would have come before the answer
			if err := d.greeted(conn); err != nil { // the other connection is to another server
				return err
			}
			return errPooler
		default:
			asked = true
			if err := d.execute(conn, "-- is the connection there?"); err != nil {
				return err
			}
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
