package teller_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/teller"
	"github.com/stretchr/testify/require"
)

// gated is a handler whose methods wait until they may go on.
type gated struct {
	slog.Handler
	open chan struct{}
}

func (g gated) Enabled(ctx context.Context, level slog.Level) bool {
	<-g.open
	return g.Handler.Enabled(ctx, level)
}

func (g gated) WithAttrs(attrs []slog.Attr) slog.Handler {
	<-g.open
	return gated{g.Handler.WithAttrs(attrs), g.open}
}

func (g gated) WithGroup(name string) slog.Handler {
	<-g.open
	return gated{g.Handler.WithGroup(name), g.open}
}

// A handler that hangs holds nothing up. Its lines are written once it goes on, in order and with all that belongs to them.
func TestLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		open := make(chan struct{})
		text := slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})
		log := teller.Logger(slog.New(gated{text, open}))
		require.Same(t, log, teller.Logger(log), "once is enough")
		log.Debug("not enabled")
		log.With("a", 1).WithGroup("g").Info("one", "b", 2)
		log.Warn("two")
		began := time.Now()
		teller.Flush(log)
		require.Equal(t, time.Second, time.Since(began))
		close(open)
		teller.Flush(log)
		require.Equal(t, "level=INFO msg=one a=1 g.b=2\nlevel=WARN msg=two\n", out.String())
		require.Equal(t, time.Second, time.Since(began))
	})
}

// A logger that writes nothing costs no goroutine.
func TestLoggerThatDiscards(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	require.Same(t, log, teller.Logger(log))
	teller.Flush(log)
}
