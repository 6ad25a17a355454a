package fence

import (
	"errors"
	"sync"
)

// Gate is a fence in memory, for a resource that one process guards on behalf of several leaders: a server that leaders
// send their writes to. It forgets its token when the process ends. The zero value is ready. Its methods may be called from
// any number of goroutines.
type Gate struct {
	mu    sync.RWMutex
	token uint64 // guarded by mu
}

// Raise raises the gate to the token, and waits for the calls of Do that are under way. After it has returned nil, no do
// with another token runs. It returns ErrSuperseded if the gate has a higher token, and refuses 0. Do not call it in Do.
func (g *Gate) Raise(token uint64) error {
	if token == 0 {
		return errors.New("fence: token 0")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if token < g.token {
		return ErrSuperseded
	}
	g.token = token
	return nil
}

// Do calls do if the gate has exactly this token, and returns do's error, otherwise ErrSuperseded. Calls of Do run at the
// same time. Do not call it in Do: it would wait for a raise that waits for it.
func (g *Gate) Do(token uint64, do func() error) error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if token == 0 || token != g.token {
		return ErrSuperseded
	}
	return do()
}
