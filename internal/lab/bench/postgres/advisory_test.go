package postgres

import (
	"context"
	"hash/fnv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// polledLock is what most people write by hand: a connection of one's own, on which pg_try_advisory_lock is tried every
// second. The leader asks its connection as often whether it still stands.
var polledLock = &contender{
	name: "try_lock", ttl: never, poll: func(time.Duration) time.Duration { return lockPoll },
	statements: "", install: nothing, open: openLocks(false),
}

// blockingLock is the same with pg_advisory_lock, in which those that wait stand in a queue.
var blockingLock = &contender{
	name: "lock", ttl: never, poll: never,
	statements: "", install: nothing, open: openLocks(true),
}

// lockPoll is how often the lock is tried, and how often the leader's connection is.
const lockPoll = time.Second

func nothing(context.Context, string, string) error { return nil }

func openLocks(blocking bool) func(context.Context, string, time.Duration) (process, error) {
	return func(_ context.Context, url string, _ time.Duration) (process, error) {
		return &locks{url, blocking}, nil
	}
}

type locks struct {
	url      string
	blocking bool
}

func (p *locks) close() {}

func (p *locks) enter(election, _ string, led func()) (standing, error) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(election))
	return &lock{locks: p, key: int64(h.Sum64()), led: led}, nil
}

// lock is a candidate with a connection of its own, from stand until resign.
type lock struct {
	*locks
	key     int64
	led     func()
	holding atomic.Bool

	cancel  context.CancelFunc // ends what stand has started
	running sync.WaitGroup
}

func (l *lock) leads() bool { return l.holding.Load() }

func (l *lock) stand() error {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.running.Go(func() {
		for ctx.Err() == nil {
			l.compete(ctx)
			pause(ctx, 100*time.Millisecond) // after an error
		}
	})
	return nil
}

// compete takes the lock and holds it, until the connection fails or ctx ends.
func (l *lock) compete(ctx context.Context) {
	conn, err := pgx.Connect(ctx, l.url)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if !l.acquire(ctx, conn) {
		return
	}
	l.holding.Store(true)
	l.led()
	for pause(ctx, lockPoll) {
		ping, cancel := context.WithTimeout(ctx, lockPoll)
		_, err := conn.Exec(ping, "SELECT 1")
		cancel()
		if err != nil && ctx.Err() == nil {
			l.holding.Store(false)
			return
		}
	}
	l.holding.Store(false)
	if !conn.IsClosed() {
		_, _ = conn.Exec(context.Background(), "SELECT pg_advisory_unlock($1)", l.key)
	}
}

func (l *lock) acquire(ctx context.Context, conn *pgx.Conn) bool {
	if l.blocking {
		_, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", l.key)
		return err == nil
	}
	for {
		var got bool
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", l.key).Scan(&got); err != nil || got {
			return err == nil
		}
		if !pause(ctx, lockPoll) {
			return false
		}
	}
}

func (l *lock) resign() error {
	l.close()
	return nil
}

func (l *lock) close() {
	if l.cancel != nil {
		l.cancel()
	}
	l.running.Wait()
}

// pause waits, and says whether ctx still lasts.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
