package engine

import (
	"context"
	"log/slog"
	"sync"
)

// teller calls the functions of the program's that are told what happens, its log handler and Settings.Renewed, in one
// goroutine that runs while there is something to tell. They are called under no lock, and may hang, panic or end their
// goroutine: only Close waits for them.
type teller struct {
	logger *slog.Logger
	start  func(func()) bool // starts the goroutine, which Close waits for, or returns false when the store has been closed

	mu      sync.Mutex
	waiting []func() // guarded by mu, as is running
	running bool
}

// mostWaiting is how many calls wait while one hangs. Others are dropped.
const mostWaiting = 100

// log logs a line soon. It does not block.
func (t *teller) log(level slog.Level, text string, args ...any) {
	t.call(func() { t.logger.Log(context.Background(), level, text, args...) })
}

// call calls f soon. It does not block.
func (t *teller) call(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) < mostWaiting {
		t.waiting = append(t.waiting, f)
	}
	t.begin()
}

// begin starts the goroutine if it is needed. The caller holds mu.
func (t *teller) begin() {
	if !t.running && len(t.waiting) > 0 {
		t.running = t.start(t.run)
	}
}

// run makes the calls. If one ends the goroutine, another goes on with the next.
func (t *teller) run() {
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.running = false
		t.begin()
	}()
	for {
		t.mu.Lock()
		if len(t.waiting) == 0 {
			t.mu.Unlock()
			return
		}
		next := t.waiting[0]
		t.waiting = t.waiting[1:]
		t.mu.Unlock()
		next()
	}
}
