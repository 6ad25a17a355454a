package drivertest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

const ttl = 3 * time.Second

// lazy is a driver whose sessions are renewed some times only, and then over after a while.
type lazy struct {
	engine.Driver
	renewals int
	over     time.Duration // after the last renewal; 0: Keep does not return
}

func (l lazy) Open(context.Context) (engine.Session, engine.Proof, error) {
	return lazySession{lazy: l}, engine.Proof{}, nil
}

func (l lazy) Close() error { return nil }

type lazySession struct {
	engine.Session
	lazy
}

func (lazySession) ID() string { return "session" }

func (lazySession) End(context.Context, []engine.Removal) error { return nil }

func (s lazySession) Keep(ctx context.Context, renewed func(engine.Proof)) error {
	for range s.renewals {
		time.Sleep(ttl / 3)
		renewed(engine.Proof{Sent: store.Now(), Valid: ttl - 1})
	}
	if s.over == 0 {
		<-ctx.Done()
	} else {
		time.Sleep(s.over)
	}
	return nil
}

type recorder struct {
	testing.TB
	failed, logged, skipped []string
}

func (r *recorder) Helper() {}
func (r *recorder) Logf(format string, args ...any) {
	r.logged = append(r.logged, fmt.Sprintf(format, args...))
}
func (r *recorder) Skipf(format string, args ...any) {
	r.skipped = append(r.skipped, fmt.Sprintf(format, args...))
}
func (r *recorder) Errorf(format string, args ...any) {
	r.failed = append(r.failed, fmt.Sprintf(format, args...))
}

// A case that fails says whether a session could not be renewed for a TTL before.
func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		driver lazy
		after  time.Duration
		ended  bool
		lapsed bool
	}{
		"no renewal, within the TTL":               {driver: lazy{}, after: ttl - 1},
		"no renewal for a TTL":                     {driver: lazy{}, after: ttl, lapsed: true},
		"renewed all the time":                     {driver: lazy{renewals: 100}, after: 2 * ttl},
		"not renewed for nearly a TTL":             {driver: lazy{renewals: 3}, after: 2*ttl - 1},
		"not renewed for a TTL later":              {driver: lazy{renewals: 3}, after: 2 * ttl, lapsed: true},
		"over before the TTL of the last renewal":  {driver: lazy{renewals: 3, over: ttl - 1}, after: 2 * ttl},
		"over after the TTL of the last renewal":   {driver: lazy{renewals: 3, over: ttl}, after: 2 * ttl, lapsed: true},
		"a session that the case itself has ended": {driver: lazy{}, after: 2 * ttl, ended: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(*testing.T) {
				r := &recorder{}
				Case{Name: "case", Invariant: "it does not fail", check: func(e *env) {
					p := e.process()
					if c.ended {
						e.ended(p)
					}
					time.Sleep(c.after)
					e.check(false, "it has failed")
				}}.Check(r, Harness{TTL: ttl, Open: func(context.Context) (engine.Driver, error) { return c.driver, nil }})
				require.Equal(t, []string{"it has failed", "case: it does not fail"}, r.failed)
				require.Equal(t, c.lapsed, len(r.logged) == 1 && strings.Contains(r.logged[0], "could not be renewed"))
			})
		})
	}
}

// A case that has checked nothing is skipped with the reason.
func TestSkip(t *testing.T) {
	r := &recorder{}
	c := Case{check: func(e *env) { e.skip("there is nothing"); e.check(false, "it goes on") }}
	c.Check(r, Harness{TTL: ttl})
	require.Equal(t, []string{"NOT TESTED: there is nothing"}, r.skipped)
	require.Empty(t, r.failed)
}

// Once a session is over that was not renewed in time, nothing is waited for.
func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, r := time.Now(), &recorder{}
		Case{check: func(e *env) {
			e.process()
			e.until("it holds", func() bool { return false })
		}}.Check(r, Harness{TTL: ttl, Open: func(context.Context) (engine.Driver, error) { return lazy{over: ttl}, nil }})
		require.Less(t, time.Since(began), 2*ttl)
		require.Contains(t, r.failed, "waited in vain until it holds")
	})
}
