// Package looks lets those who wait for an event look for themselves now and then: a watch can go silent, or miss the
// event that it was set for.
package looks

import (
	"slices"
	"sync"
)

// Turns wakes those who wait one after the other, one each time Next is called: however many there are, it costs a
// request or two each time. Its zero value is ready to use, from any goroutine.
type Turns struct {
	mu   sync.Mutex
	list []chan struct{} // guarded by mu: the next in turn first
}

// Join adds one who waits. A value comes through the channel when it is its turn to look; it is kept for one who is
// busy. It has to leave again.
func (t *Turns) Join() chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	ch := make(chan struct{}, 1)
	t.list = append(t.list, ch)
	return ch
}

// Leave removes what Join added.
func (t *Turns) Leave(ch chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = slices.DeleteFunc(t.list, func(c chan struct{}) bool { return c == ch })
}

// Next wakes the next in turn. It does not block.
func (t *Turns) Next() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.list) == 0 {
		return
	}
	ch := t.list[0]
	t.list = append(t.list[1:], ch)
	select {
	case ch <- struct{}{}:
	default:
	}
}
