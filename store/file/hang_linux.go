package file

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// requests are the requests under way. One that takes a TTL hangs in a system call: none is begun beside it, and no renewal
// either. So the session ends at its deadline, and other processes do not wait for its ballots, one of which might be ahead
// of theirs.
type requests struct {
	limit time.Duration // constant: the TTL
	mu    sync.Mutex
	began map[*time.Time]struct{} // guarded by mu: when each request began
}

// begin notes a request. The caller calls end after it.
func (r *requests) begin() (end func()) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began[&now] = struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.began, &now)
	}
}

// hung returns an error if a request hangs.
func (r *requests) hung() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for began := range r.began {
		if took := time.Since(*began); took >= r.limit {
			return fmt.Errorf("%w: a system call has not returned for %v", store.ErrUnavailable, took.Round(time.Millisecond))
		}
	}
	return nil
}

// wait waits until no request hangs. If ctx ends before, it returns an error.
func (r *requests) wait(ctx context.Context) error {
	err := r.hung()
	for ; err != nil && ctx.Err() == nil; err = r.hung() {
		adapter.Pause(ctx)
	}
	return err
}
