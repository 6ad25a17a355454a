package engine

import (
	"context"
	"log/slog"
	"sync"
)

// logger hands lines to the program's logger, in one goroutine that runs while there are any. The program's handler is
// called under no lock, and may hang or end its goroutine: only Close waits for it.
type logger struct {
	log   *slog.Logger
	start func(func()) bool // starts the goroutine, which Close waits for, or returns false when the store has been closed

	mu      sync.Mutex
	lines   []line // guarded by mu, as is running
	running bool
}

type line struct {
	level slog.Level
	text  string
	args  []any
}

// mostLines is how many lines wait while the program's handler hangs. Others are dropped.
const mostLines = 100

// add logs a line soon. It does not block.
func (l *logger) add(level slog.Level, text string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) < mostLines {
		l.lines = append(l.lines, line{level, text, args})
	}
	l.begin()
}

// begin starts the goroutine if it is needed. The caller holds mu.
func (l *logger) begin() {
	if !l.running && len(l.lines) > 0 {
		l.running = l.start(l.run)
	}
}

// run logs the lines. If a handler ends the goroutine, another goes on with the next line.
func (l *logger) run() {
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.running = false
		l.begin()
	}()
	for {
		l.mu.Lock()
		if len(l.lines) == 0 {
			l.mu.Unlock()
			return
		}
		next := l.lines[0]
		l.lines = l.lines[1:]
		l.mu.Unlock()
		l.log.Log(context.Background(), next.level, next.text, next.args...)
	}
}
