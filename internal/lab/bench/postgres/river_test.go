package postgres

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverQueue is River, whose clients elect the one that does the maintenance. An election is a schema, and a candidate is
// a client. The client says in its log when it begins and ceases to lead; there is no other way to know at once. The
// lease, of 15 s, can't be set.
var riverQueue = &contender{
	name: "river",
	ttl:  func(time.Duration) time.Duration { return 15 * time.Second },
	poll: never, statements: "river_leader",
	install: func(ctx context.Context, url, election string) error {
		pool, err := pgxpool.New(ctx, url)
		if err != nil {
			return err
		}
		defer pool.Close()
		if _, err := pool.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+riverSchema(election)); err != nil {
			return err
		}
		m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{
			Schema: riverSchema(election), Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return err
		}
		_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
		return err
	},
	open: func(ctx context.Context, url string, _ time.Duration) (process, error) {
		pool, err := pgxpool.New(ctx, url)
		return &riverProcess{pool}, err
	},
}

func riverSchema(election string) string {
	return "river_" + strings.ToLower(strings.ReplaceAll(election, "-", "_"))
}

type riverProcess struct{ pool *pgxpool.Pool }

func (p *riverProcess) close() { p.pool.Close() }

func (p *riverProcess) enter(election, value string, led func()) (standing, error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[noJob]) error { return nil }))
	c := &riverCandidate{led: led}
	var err error
	c.client, err = river.NewClient(riverpgxv5.New(p.pool), &river.Config{
		ID:                value,
		Schema:            riverSchema(election),
		Logger:            slog.New(c),
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}},
		Workers:           workers,
		FetchPollInterval: time.Hour, // there are no jobs, and the election does not depend on it
	})
	return c, err
}

type noJob struct{}

func (noJob) Kind() string { return "none" }

// riverCandidate is a client, and the handler of its log.
type riverCandidate struct {
	client  *river.Client[pgx.Tx]
	led     func()
	leading atomic.Bool
}

func (c *riverCandidate) leads() bool { return c.leading.Load() }
func (c *riverCandidate) stand() error {
	return c.client.Start(context.Background())
}

func (c *riverCandidate) resign() error {
	c.leading.Store(false)
	return c.client.Stop(context.Background())
}
func (c *riverCandidate) close() { _ = c.resign() }

func (c *riverCandidate) Enabled(context.Context, slog.Level) bool { return true }
func (c *riverCandidate) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *riverCandidate) WithGroup(string) slog.Handler            { return c }

// Handle implements slog.Handler.
func (c *riverCandidate) Handle(_ context.Context, r slog.Record) error {
	if !strings.HasSuffix(r.Message, "Election change received") {
		return nil
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "is_leader" {
			leads := a.Value.Bool()
			if c.leading.Swap(leads) != leads && leads {
				c.led()
			}
		}
		return true
	})
	return nil
}
