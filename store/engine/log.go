package engine

import (
	"context"
	"log/slog"

	"github.com/go-leadership/leadership/internal/teller"
)

// program is how a program is told what happens: by its log handler and Settings.Renewed. Both are called in goroutines
// of their own, which run while there is something to tell. They may hang, panic or end their goroutine: nothing waits
// for them, but Close for a second.
type program struct {
	logger *slog.Logger // of teller.Logger
	calls  *teller.Queue
}

func newProgram(logger *slog.Logger) program {
	return program{teller.Logger(logger), teller.NewQueue(100, teller.Detached)}
}

// log logs a line soon. It does not block.
func (p *program) log(level slog.Level, text string, args ...any) {
	p.logger.Log(context.Background(), level, text, args...)
}

// notify calls f soon. It does not block. If f does not return, that is logged.
func (p *program) notify(store, what string, f func()) {
	p.calls.Add(what, func() {
		if err := teller.Call(func() error { f(); return nil }); err != nil {
			p.log(slog.LevelError, what+" of the store's options has failed", "store", store, "error", err)
		}
	})
}

// flush waits until the program has been told, for a second at most each.
func (p *program) flush() {
	teller.Wait(p.calls)
	teller.Flush(p.logger)
}
