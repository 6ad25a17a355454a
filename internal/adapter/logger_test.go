package adapter

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/teller"
	"github.com/stretchr/testify/require"
)

// hanging is a log handler that does not return before it may.
type hanging struct {
	slog.Handler
	resumed chan struct{}
}

func (h hanging) Enabled(context.Context, slog.Level) bool  { <-h.resumed; return true }
func (h hanging) Handle(context.Context, slog.Record) error { return nil }

// A driver logs in the middle of its work, with the logger of its settings. No handler of the program's holds that up.
func TestHandlerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resumed := make(chan struct{})
		defer close(resumed)
		ttl, grace, logger := 10*time.Second, time.Duration(0), slog.New(hanging{slog.DiscardHandler, resumed})
		s := Settings{TTL: &ttl, Grace: &grace, Least: time.Second, Most: time.Hour, Unit: time.Second, Logger: &logger}
		require.NoError(t, s.Complete())
		logged := make(chan struct{})
		go func() {
			defer close(logged)
			logger.Debug("a line")
			NewLifecycle("test", false, "").Warn(logger, "another")
		}()
		select {
		case <-logged:
		case <-time.After(time.Minute):
			t.Error("the handler holds it up")
		}
		teller.Flush(logger)
	})
}

// Without a logger, what a driver logs is found in the default log.
func TestDefaultLogger(t *testing.T) {
	old := slog.Default()
	defer log.SetOutput(os.Stderr)
	defer slog.SetDefault(old)
	var out bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	ttl, grace, logger := 10*time.Second, time.Duration(0), (*slog.Logger)(nil)
	s := Settings{TTL: &ttl, Grace: &grace, Least: time.Second, Most: time.Hour, Unit: time.Second, Logger: &logger}
	require.NoError(t, s.Complete())
	logger.Warn("the service does not answer")
	teller.Flush(logger)
	require.Contains(t, out.String(), `level=WARN msg="the service does not answer"`)
}
