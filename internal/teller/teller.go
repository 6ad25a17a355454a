// Package teller calls a program's log handlers and hooks away from the path of what they are told about.
package teller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
)

// Queue makes calls one after another, in the order in which they were added, in a goroutine that runs while there are
// any. A call that hangs delays those after it, and nothing else. Its methods don't block, and may be called from any
// number of goroutines and from the calls.
type Queue struct {
	most  int
	start func(run func()) bool

	mu      sync.Mutex
	waiting []call        // guarded by mu, as are all below
	added   uint64        // calls so far
	idle    chan struct{} // closed when nothing is left to call; nil if there is nothing
}

type call struct {
	kind any
	f    func()
}

// NewQueue returns a queue in which at most so many calls wait. When that many wait, a new one replaces the oldest of its
// kind, or is added if there is none: the latest of each kind is always called, and a queue with few kinds stays small
// while a call hangs.
//
// start runs a function in a goroutine that the owner waits for. It returns false if the owner has ended; then the calls
// are dropped.
func NewQueue(most int, start func(run func()) bool) *Queue {
	return &Queue{most: most, start: start}
}

// Add adds a call. A kind is comparable, and there are few of them. If the call might panic or call runtime.Goexit, it
// makes use of [Call].
func (q *Queue) Add(kind any, f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= q.most {
		if i := slices.IndexFunc(q.waiting, func(c call) bool { return c.kind == kind }); i >= 0 {
			q.waiting = slices.Delete(q.waiting, i, i+1)
		}
	}
	q.waiting = append(q.waiting, call{kind, f})
	q.added++
	if q.idle == nil {
		q.idle = make(chan struct{})
		if !q.start(q.run) {
			q.rest()
		}
	}
}

// Added returns how many calls have been added so far.
func (q *Queue) Added() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.added
}

// Idle returns a channel that is closed when all calls have returned and none waits.
func (q *Queue) Idle() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.idle == nil {
		return closed
	}
	return q.idle
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (q *Queue) run() {
	for {
		q.mu.Lock()
		if len(q.waiting) == 0 {
			q.rest()
			q.mu.Unlock()
			return
		}
		next := q.waiting[0].f
		q.waiting[0] = call{}
		q.waiting = q.waiting[1:]
		q.mu.Unlock()
		next()
	}
}

// rest notes that there is nothing left to call. The caller holds mu.
func (q *Queue) rest() {
	q.waiting = nil
	close(q.idle)
	q.idle = nil
}

// Call calls a function of the program's in a goroutine of its own and waits for it. A panic and runtime.Goexit end that
// call only: both become an error, a panic with its stack.
func Call(f func() error) error {
	result := make(chan error, 1)
	go func() {
		err := errors.New("a callback has called runtime.Goexit")
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic in a callback: %v\n%s", p, debug.Stack())
			}
			result <- err
		}()
		err = f()
	}()
	return <-result
}

// Log writes a record with a log handler of the program's. If the handler does not return, Log writes the record and the
// error to slog.Default, and returns the error. What the handler returns counts for nothing, as in package slog.
func Log(h slog.Handler, r slog.Record) error {
	lost := Call(func() error {
		if h.Enabled(context.Background(), r.Level) {
			_ = h.Handle(context.Background(), r)
		}
		return nil
	})
	if lost != nil {
		lost = fmt.Errorf("a line of the log is lost: %w", lost)
		_ = Call(func() error { // the default might be the same handler
			slog.Error("leadership: "+r.Message, "error", lost)
			return nil
		})
	}
	return lost
}
