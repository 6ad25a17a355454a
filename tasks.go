package leadership

import "sync"

// tasks counts what a candidate or a follower still does: calls in progress and goroutines. Done is closed when Stop
// has been called and nothing is left.
type tasks struct {
	mu    sync.Mutex
	count int           // guarded by mu; one of them stands for Stop, which is still to be called
	done  chan struct{} // closed, under mu, when count is zero
	once  sync.Once     // of stop
}

func newTasks() *tasks { return &tasks{count: 1, done: make(chan struct{})} }

// begin counts a task. It is refused once done is closed. While another task runs it never is.
func (t *tasks) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count == 0 {
		return false
	}
	t.count++
	return true
}

func (t *tasks) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count--
	if t.count == 0 {
		close(t.done)
	}
}

// run runs f in a goroutine and reports whether it does: not once done is closed.
func (t *tasks) run(f func()) bool {
	if !t.begin() {
		return false
	}
	go func() {
		defer t.end()
		f()
	}()
	return true
}

// stop makes the end of the last task close done. It does not block, and may be called again.
func (t *tasks) stop() { t.once.Do(t.end) }
