package adapter

import (
	"context"
	"sync"
)

// Orphan is a ballot that nobody wants any more and that may still stand, in the way of those behind it.
type Orphan interface {
	// Over reports that there is nothing to remove any more: its session has ended, or has been left to end by itself.
	Over() bool
}

// Orphans are those that Sweep has to remove.
type Orphans[O Orphan] struct {
	life   *Life
	turns  int // how many are removed at a time
	remove func(context.Context, O) error
	refuse func(O, error)

	added chan struct{} // has room for one
	mu    sync.Mutex
	list  []O // guarded by mu, as is count
	count int // of those that are listed, being removed, or may come of a request under way
}

// NewOrphans returns an empty set, of which Sweep removes so many at a time. remove removes one with its acknowledgement, and returns nil once both are known to
// be gone. refuse is called where that is refused for good: the ballot goes with its session, which therefore has to
// go, or nobody behind it would ever lead.
func NewOrphans[O Orphan](l *Life, turns int, remove func(context.Context, O) error, refuse func(O, error)) *Orphans[O] {
	return &Orphans[O]{life: l, turns: turns, remove: remove, refuse: refuse, added: make(chan struct{}, 1)}
}

// Add hands one over to Sweep.
func (q *Orphans[O]) Add(o O) {
	q.Expect(1)
	q.put(o)
}

// Expect says that n orphans more, or fewer where it is negative, may come of requests under way.
func (q *Orphans[O]) Expect(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count += n
}

// Left returns how many there are or may be.
func (q *Orphans[O]) Left() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count
}

func (q *Orphans[O]) put(o O) {
	q.mu.Lock()
	q.list = append(q.list, o)
	q.mu.Unlock()
	select {
	case q.added <- struct{}{}:
	default:
	}
}

func (q *Orphans[O]) take() []O {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.list
	q.list = nil
	return list
}

// Withdraw removes a ballot that its owner withdraws. What it can't remove is left to Sweep.
func (q *Orphans[O]) Withdraw(ctx context.Context, election string, o O) error {
	_, err := Repeat(ctx, q.life, "withdraw", election, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, q.remove(ctx, o)
	})
	if err != nil {
		q.Add(o)
	}
	return err
}

// Sweep removes orphans until the store has been closed, some at a time, each again and again where there is no answer.
func (q *Orphans[O]) Sweep() {
	for q.life.Background.Err() == nil {
		var removers sync.WaitGroup
		turns := make(chan struct{}, q.turns)
		for _, o := range q.take() {
			turns <- struct{}{}
			removers.Go(func() {
				defer func() { <-turns }()
				q.sweep(o)
			})
		}
		removers.Wait()
		select {
		case <-q.added:
		case <-q.life.Background.Done():
		}
	}
}

func (q *Orphans[O]) sweep(o O) {
	ctx := q.life.Background
	if !o.Over() {
		err := q.remove(ctx, o)
		if err != nil && ctx.Err() == nil {
			if Uncertain(err) {
				Pause(ctx)
				q.put(o)
				return
			}
			q.refuse(o, err)
		}
	}
	q.Expect(-1)
}
