package leadership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// errLineLost reports a log handler that ended its goroutine.
var errLineLost = errors.New("a line of the log is lost: its handler has called runtime.Goexit")

// logHandler is the handler of the user's, whose calls of runtime.Goexit end no goroutine of the library's.
type logHandler struct {
	slog.Handler             // it has all attributes already
	showError    func(error) // called if a line is lost
}

// Enabled implements slog.Handler.
func (h logHandler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	h.call(func() { enabled = h.Handler.Enabled(ctx, level) })
	return enabled
}

// Handle implements slog.Handler.
func (h logHandler) Handle(ctx context.Context, record slog.Record) (err error) {
	h.call(func() { err = h.Handler.Handle(ctx, record) })
	return err
}

// call calls the handler. A panic of it goes on in the caller, as if there were nothing between.
func (h logHandler) call(f func()) {
	switch err := call(func() error { f(); return nil }); {
	case errors.Is(err, errGoexit):
		h.showError(errLineLost)
	case err != nil:
		panic(fmt.Errorf("in the log handler: %w", err))
	}
}
