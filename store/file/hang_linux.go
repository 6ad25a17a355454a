package file

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
)

// calls are the calls under way. If one hangs for a TTL, the session is given up: one of its ballots might be ahead of
// those of other processes, while its renewals go on. Calls of fsync are not among them. They take long on a busy disk, and
// a ballot seldom has a ticket when it waits for one.
type calls struct {
	limit time.Duration // a call that takes as long hangs

	mu       sync.Mutex
	underWay map[*call]struct{} // guarded by mu, as is ended
	ended    chan struct{}      // closed and replaced when a call that hung has ended
}

type call struct {
	op, path string
	began    time.Time
}

func newCalls(limit time.Duration) *calls {
	return &calls{limit: limit, underWay: map[*call]struct{}{}, ended: make(chan struct{})}
}

// begin notes a call. The caller calls end after it.
func (c *calls) begin(op, path string) (end func()) {
	one := &call{op, path, time.Now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underWay[one] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.underWay, one)
		if time.Since(one.began) >= c.limit {
			close(c.ended)
			c.ended = make(chan struct{})
		}
	}
}

// hung returns an error that names the call that hangs for longest; nil if none does.
func (c *calls) hung() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var longest *call
	for one := range c.underWay {
		if longest == nil || one.began.Before(longest.began) {
			longest = one
		}
	}
	if longest == nil {
		return nil
	}
	took := time.Since(longest.began)
	if took < c.limit {
		return nil
	}
	return fmt.Errorf("%w: %s %s has not returned for %v", store.ErrUnavailable, longest.op, longest.path, took.Round(time.Millisecond))
}

// wait waits until no call hangs. If ctx ends before, it returns an error that names one.
func (c *calls) wait(ctx context.Context) error {
	for {
		c.mu.Lock()
		ended := c.ended
		c.mu.Unlock()
		err := c.hung()
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

// note notes a call of ops.
func (c *calls) note(op, path string, call func() error) error {
	if op != "fsync" {
		defer c.begin(op, path)()
	}
	return call()
}

// watch watches a directory, as hub.add does.
func (d *driver) watch(dir string, mask uint32, name string, tell func(mask uint32)) (*sub, error) {
	defer d.calls.begin("inotify_add_watch", dir)()
	return d.hub.add(dir, mask, name, tell)
}
