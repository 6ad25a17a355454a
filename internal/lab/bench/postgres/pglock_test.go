package postgres

import (
	"context"
	"database/sql"
	"sync"
	"sync/atomic"
	"time"

	"cirello.io/pglock"
	_ "github.com/lib/pq" // the driver that pglock requires
)

// pgLock is cirello.io/pglock: a row with a version that the holder changes by heartbeats. The heartbeat is a quarter of
// the lease, as by default. One that waits asks once in a lease.
var pgLock = &contender{
	name: "pglock", ttl: same, poll: same,
	statements: "",
	install: func(ctx context.Context, url, _ string) error {
		p, err := openPgLock(ctx, url, usual)
		if err != nil {
			return err
		}
		defer p.close()
		return p.(*pgLocks).client.TryCreateTable()
	},
	open: openPgLock,
}

type pgLocks struct {
	db     *sql.DB
	client *pglock.Client
}

func openPgLock(_ context.Context, url string, ttl time.Duration) (process, error) {
	db, err := sql.Open("postgres", url)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(20)
	client, err := pglock.New(db, pglock.WithLeaseDuration(ttl), pglock.WithHeartbeatFrequency(ttl/4))
	return &pgLocks{db, client}, err
}

func (p *pgLocks) close() { _ = p.db.Close() }

func (p *pgLocks) enter(election, value string, led func()) (standing, error) {
	return &pgLockCandidate{pgLocks: p, election: election, value: value, led: led}, nil
}

type pgLockCandidate struct {
	*pgLocks
	election, value string
	led             func()

	term    atomic.Pointer[context.Context] // of the function that leads; nil before it
	cancel  context.CancelFunc              // ends what stand has started
	release chan struct{}                   // closed by resign
	running sync.WaitGroup
}

// leads implements standing. Do ends the context when a heartbeat has failed.
func (c *pgLockCandidate) leads() bool {
	ctx := c.term.Load()
	return ctx != nil && (*ctx).Err() == nil
}

func (c *pgLockCandidate) stand() error {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel, c.release = cancel, make(chan struct{})
	release := c.release
	c.running.Go(func() {
		for ctx.Err() == nil {
			err := c.client.Do(ctx, c.election, func(ctx context.Context, _ *pglock.Lock) error {
				c.term.Store(&ctx)
				c.led()
				select {
				case <-ctx.Done():
				case <-release:
				}
				c.term.Store(nil)
				return nil
			}, pglock.WithData([]byte(c.value)))
			select {
			case <-release:
				return
			default:
			}
			if err != nil {
				pause(ctx, 100*time.Millisecond)
			}
		}
	})
	return nil
}

func (c *pgLockCandidate) resign() error {
	close(c.release)
	c.running.Wait()
	return nil
}

func (c *pgLockCandidate) close() {
	if c.cancel != nil {
		c.cancel()
	}
	c.running.Wait()
}
