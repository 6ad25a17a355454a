package leadership_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/go-leadership/leadership"
	"github.com/stretchr/testify/require"
)

// handler is a log handler that calls a function with each message that it is given.
type handler struct {
	slog.Handler
	handle func(message string)
}

func (h handler) Enabled(context.Context, slog.Level) bool { return true }
func (h handler) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h handler) Handle(_ context.Context, r slog.Record) error {
	h.handle(r.Message)
	return nil
}

// handledBy returns options with such a handler.
func handledBy(handle func(message string)) *leadership.Options {
	return &leadership.Options{Logger: slog.New(handler{slog.DiscardHandler, handle})}
}

// TestNothingIsToldAfterDone: Done waits for the line about the end of a term, and for the hook of an acknowledgement
// whose answer comes after the end.
func TestNothingIsToldAfterDone(t *testing.T) {
	virtualRun(t, "log", func(w *world) {
		released := make(chan struct{})
		c := w.candidate(w.open(), "a", handledBy(func(message string) {
			if message == "leadership ended" {
				<-released
			}
		}))
		term := w.campaign(c)
		go c.Resign()
		synctest.Wait()
		require.False(w, c.IsLeader())
		require.NoError(w, term.Withdraw(background))
		c.Stop()
		require.False(w, isDone(c), "its last line is not written yet")
		close(released)
		require.True(w, isDone(c))
	})
	virtualRun(t, "Acknowledged", func(w *world) {
		released := make(chan struct{})
		told := false
		c := w.candidate(changing(w.open(), func(b *fakeBallot) {
			b.acknowledge = func(context.Context, string) (leadership.Leader, error) {
				<-released
				return leadership.Leader{Value: "a", Revision: 1}, nil
			}
		}), "a", &leadership.Options{Hooks: &leadership.Hooks{
			Acknowledged: func(string, uint64, leadership.Leader) { told = true },
		}})
		term := w.campaign(c)
		acknowledged := async(func() error { return term.Acknowledge(background) })
		synctest.Wait()
		require.NoError(w, term.Withdraw(background))
		c.Stop()
		require.False(w, isDone(c), "a call of Acknowledge goes on")
		close(released)
		<-c.Done()
		require.True(w, told)
		require.NoError(w, <-acknowledged)
		require.ErrorIs(w, term.Acknowledge(background), leadership.ErrNotElected, "after Done nothing is sent or told")
	})
}
