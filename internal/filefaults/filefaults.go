// Package filefaults lets the suites put faults between the store of a directory and the kernel, as a dialer does for
// stores with a network. The programs of users can't: they can't import it.
package filefaults

import (
	"context"
	"sync"

	"github.com/go-leadership/leadership/internal/faulty"
	"github.com/go-leadership/leadership/store"
)

type key struct{}

// Of returns the line that a store has to be opened on; nil for none.
func Of(ctx context.Context) *faulty.Line {
	line, _ := ctx.Value(key{}).(*faulty.Line)
	return line
}

// Stores are stores of directories, each on a line of its own. The zero value has none.
type Stores struct{ lines sync.Map }

// Open opens a store with open, on a new line.
func (s *Stores) Open(ctx context.Context, open func(ctx context.Context) (store.Store, error)) (store.Store, error) {
	line := faulty.New()
	st, err := open(context.WithValue(ctx, key{}, line))
	if err == nil {
		s.lines.Store(st, line)
	}
	return st, err
}

// Line returns the line of a store that Open has returned.
func (s *Stores) Line(st store.Store) *faulty.Line {
	line, _ := s.lines.Load(st)
	return line.(*faulty.Line)
}
