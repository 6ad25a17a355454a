package teller

import (
	"context"
	"log/slog"
	"time"
)

// Logger returns a logger that writes to the handler of another one in a goroutine of its own, in order, by [Log]. So a
// handler that hangs, panics or calls runtime.Goexit holds up and ends nothing. While the handler hangs, 100 lines wait.
func Logger(to *slog.Logger) *slog.Logger {
	h := to.Handler()
	if _, already := h.(handler); already || h == slog.DiscardHandler {
		return to
	}
	return slog.New(handler{to: func() slog.Handler { return h }, queue: NewQueue(100, Detached)})
}

// Detached starts a function in a goroutine that has no owner: see [Wait].
func Detached(run func()) bool { go run(); return true }

// Flush waits until the lines of a logger of [Logger] have been written, for a second at most.
func Flush(l *slog.Logger) {
	if h, ok := l.Handler().(handler); ok {
		Wait(h.queue)
	}
}

// Wait waits until the calls of a queue have returned, for a second at most.
func Wait(q *Queue) {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-q.Idle():
	case <-timer.C:
	}
}

// handler calls no method of the program's handler before its turn.
type handler struct {
	to    func() slog.Handler // is called in the queue's goroutine
	queue *Queue
}

func (h handler) Enabled(context.Context, slog.Level) bool { return true }

func (h handler) Handle(_ context.Context, r slog.Record) error {
	r = r.Clone()
	h.queue.Add(r.Message, func() { _ = Log(late(h.to), r) })
	return nil
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{func() slog.Handler { return h.to().WithAttrs(attrs) }, h.queue}
}

func (h handler) WithGroup(name string) slog.Handler {
	return handler{func() slog.Handler { return h.to().WithGroup(name) }, h.queue}
}

// late is a handler that is made when it is asked, so that a panic of its methods is one of [Log]'s.
type late func() slog.Handler

func (l late) Enabled(ctx context.Context, level slog.Level) bool { return l().Enabled(ctx, level) }
func (l late) Handle(ctx context.Context, r slog.Record) error    { return l().Handle(ctx, r) }
func (l late) WithAttrs(attrs []slog.Attr) slog.Handler           { return l().WithAttrs(attrs) }
func (l late) WithGroup(name string) slog.Handler                 { return l().WithGroup(name) }
