package channels

import "sync"

// latest is a channel on which nothing ever blocks: a new value replaces what was not read.
type latest[T any] struct {
	values chan T

	mu     sync.Mutex // held while sending
	closed bool       // guarded by mu
}

func newLatest[T any](room int) *latest[T] { return &latest[T]{values: make(chan T, room)} }

// add sends a value behind what was not read. There is room.
func (l *latest[T]) add(value T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.values <- value
}

// takeBack takes a value back that was not read, and reports whether there was one.
func (l *latest[T]) takeBack() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.values:
		return true
	default:
		return false
	}
}

// replace sends a value in place of all that was not read, unless the channel is closed.
func (l *latest[T]) replace(value T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.put(value)
	}
}

// put is replace. The caller holds mu.
func (l *latest[T]) put(value T) {
	for {
		select {
		case <-l.values:
		default:
			l.values <- value
			return
		}
	}
}

// close closes the channel, with a last value in place of what was not read if there is one. Otherwise what was not read can
// still be read.
func (l *latest[T]) close(last ...T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, value := range last {
		l.put(value)
	}
	l.closed = true
	close(l.values)
}

// refused returns closed channels that carry an error.
func refused[T any](err error) (<-chan T, <-chan error) {
	values, errs := newLatest[T](0), newLatest[error](1)
	values.close()
	errs.close(err)
	return values.values, errs.values
}
