// Package goroutine tells whether a call comes from a goroutine that is already running a caller's function.
//
// Stop waits for the user's functions to return. One that calls Stop itself would wait for its own end, and Go offers
// no other way to see that than the number which the runtime prints in a stack trace.
package goroutine

import (
	"bytes"
	"runtime"
	"strconv"
	"sync"
)

// Set is a set of goroutines. Its zero value is empty.
type Set struct {
	mu  sync.Mutex
	ids map[uint64]int // guarded by mu: how many times each is in the set
}

// Do calls f with the current goroutine in the set.
func (s *Set) Do(f func()) {
	id := current()
	s.add(id, 1)
	defer s.add(id, -1)
	f()
}

// Has reports whether the current goroutine is in the set.
func (s *Set) Has() bool {
	id := current()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[id] > 0
}

func (s *Set) add(id uint64, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil {
		s.ids = map[uint64]int{}
	}
	if s.ids[id] += n; s.ids[id] == 0 {
		delete(s.ids, id)
	}
}

// current returns the number in the first line of a stack trace, "goroutine 7 [running]:". The runtime never gives
// one to two goroutines.
func current() uint64 {
	var buf [64]byte
	line := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	digits, _, _ := bytes.Cut(line, []byte(" "))
	id, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil {
		panic("goroutine: unknown form of stack trace: " + string(buf[:]))
	}
	return id
}
