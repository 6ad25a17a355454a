package main

import (
	"context"
	"sync"

	"github.com/go-leadership/leadership/store"
)

// bound is a store that remembers its last ballot: that of the candidate, which has one at a time.
type bound struct {
	store.Store

	mu     sync.Mutex
	ballot store.Ballot // guarded by mu
}

// Cast implements store.Store.
func (b *bound) Cast(ctx context.Context, election, value string) (store.Ballot, error) {
	ballot, err := b.Store.Cast(ctx, election, value)
	if err == nil {
		b.mu.Lock()
		b.ballot = ballot
		b.mu.Unlock()
	}
	return ballot, err
}

// last returns the last ballot. The runner needs the ballot's lease after its term: if an operator ends the term, the
// lease goes on, and the command is guarded until it has ended.
func (b *bound) last() store.Ballot {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ballot
}
