package file

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
)

// leastHang is the least time after which a request counts as one that hangs: a busy machine is slow.
const leastHang = 5 * time.Second

// requests are the requests under way. If one takes a TTL, or 5 s if that is longer, a system call hangs, and the session is
// given up: one of its ballots might be ahead of those of other processes, while its renewals go on. The first ballot of a
// process does not have a ticket while it waits for fsync, see prepare: a busy disk takes long for that.
type requests struct {
	limit time.Duration // constant: a request that takes as long hangs

	mu    sync.Mutex
	began map[*time.Time]struct{} // guarded by mu, as is ended: when each request began
	ended chan struct{}           // closed and replaced when a request has ended
}

func newRequests(limit time.Duration) *requests {
	return &requests{limit: limit, began: map[*time.Time]struct{}{}, ended: make(chan struct{})}
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
		close(r.ended)
		r.ended = make(chan struct{})
	}
}

// hung returns an error if a request hangs, and a channel that is closed when a request has ended.
func (r *requests) hung() (ended <-chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for began := range r.began {
		if took := time.Since(*began); took >= r.limit {
			err = fmt.Errorf("%w: a system call has not returned for %v", store.ErrUnavailable, took.Round(time.Millisecond))
		}
	}
	return r.ended, err
}

// wait waits until no request hangs. If ctx ends before, it returns an error.
func (r *requests) wait(ctx context.Context) error {
	for {
		ended, err := r.hung()
		if err == nil {
			return nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return err
		}
	}
}
