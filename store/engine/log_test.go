package engine

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// lines is a log. Its zero value is ready to use.
type lines struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns what has been logged when all is at rest.
func (l *lines) String() string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) count() int { return strings.Count(l.String(), "\n") }

// logger returns a logger that leaves the time out.
func (l *lines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

func (l *lines) settings() Settings { return Settings{Logger: l.logger()} }

// handler calls a function for each line.
type handler struct {
	slog.Handler
	handle func()
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	h.handle()
	return h.Handler.Handle(ctx, r)
}

// TestLogHandlerThatHangs stops nothing. Close waits a second for it.
func TestLogHandlerThatHangs(t *testing.T) {
	var log lines
	var hangs chan struct{} // of the bubble
	settings := Settings{Logger: slog.New(handler{log.logger().Handler(), func() { <-hangs }})}
	play(t, settings, func(t *testing.T, s *scene) {
		hangs = make(chan struct{})
		b, _ := s.leading(1)
		s.scripted.session.ends(errLater)
		require.True(t, b.isLost())
		require.NoError(t, ignore(s.withdraw(t.Context(), b)))
		s.find("End").fail(errLater) // which is logged
		require.Zero(t, log.count())
		s.leading(2)
		closed := start(func() (struct{}, error) { return struct{}{}, s.Engine.Close() })
		s.find("End").answer(answer{})
		require.False(t, closed.returned())
		time.Sleep(time.Second)
		closed.succeeds(t)
		require.Zero(t, log.count())
		close(hangs)
		require.Equal(t, 1, log.count())
	})
}

// ignore returns nil when a call has returned.
func ignore(c *call[struct{}]) error { <-c.done; return nil }

// TestRenewalsAreTold: once each, with the time since the renewal was sent. A function that panics ends no session, and
// the log says so.
func TestRenewalsAreTold(t *testing.T) {
	var log lines
	settings := log.settings()
	var told []time.Duration
	settings.Renewed = func(latency time.Duration) {
		told = append(told, latency)
		if len(told) == 2 {
			panic("on purpose")
		}
	}
	play(t, settings, func(t *testing.T, s *scene) {
		b, _ := s.leading(1)
		s.leading(2)
		synctest.Wait()
		told = nil
		for range 3 {
			sent := store.Now()
			time.Sleep(time.Second)
			s.scripted.session.renew(Proof{Sent: sent, Valid: ttl})
			s.scripted.session.renew(Proof{Connection: 1}) // proves nothing
		}
		synctest.Wait()
		require.Equal(t, []time.Duration{time.Second, time.Second, time.Second}, told)
		require.Equal(t, 1, log.count())
		require.Contains(t, log.String(), "on purpose")
		require.False(t, b.isLost())
	})
}
