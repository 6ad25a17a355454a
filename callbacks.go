package leadership

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
)

// callbacks are functions of the user's, in the order in which they were registered.
type callbacks[F any] struct {
	mu   sync.Mutex
	list []F // guarded by mu; what all has returned does not change
}

// add registers a function. It panics if that is nil, so that the stack shows the mistake.
func (b *callbacks[F]) add(f F, isNil bool) {
	if isNil {
		panic("leadership: the callback is nil")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(slices.Clip(b.list), f)
}

func (b *callbacks[F]) all() []F {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.list
}

// errGoexit reports a callback that ended its goroutine.
var errGoexit = errors.New("a callback has called runtime.Goexit")

// call calls a function of the user's in a goroutine of its own and waits for it, so that neither a panic nor
// runtime.Goexit ends more than that call: both become an error, a panic with its stack.
func call(f func() error) error {
	result := make(chan error, 1)
	go func() {
		err := errGoexit
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

// call is call for a function without an error of its own. It reports one that did not return.
func (n *news) call(f func()) {
	if err := call(func() error { f(); return nil }); err != nil {
		n.note(event{what: callbackFailed, err: err})
	}
}
