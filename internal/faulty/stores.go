package faulty

import (
	"context"
	"sync"

	"github.com/go-leadership/leadership/store"
)

type key struct{}

// Of returns the line that [Stores.Open] wants a store to be opened on; nil for none.
func Of(ctx context.Context) *Line {
	line, _ := ctx.Value(key{}).(*Line)
	return line
}

// Stores are stores of directories, each on a line of its own between the store and the kernel: it is for them what a
// dialer is for stores with a network. The zero value has none.
type Stores struct{ lines sync.Map }

// Open opens a store with open, on a new line.
func (s *Stores) Open(ctx context.Context, open func(ctx context.Context) (store.Store, error)) (store.Store, error) {
	line := New()
	st, err := open(context.WithValue(ctx, key{}, line))
	if err == nil {
		s.lines.Store(st, line)
	}
	return st, err
}

// Line returns the line of a store that Open has returned.
func (s *Stores) Line(st store.Store) *Line {
	line, _ := s.lines.Load(st)
	return line.(*Line)
}
