package leadership

import (
	"context"
	"errors"
	"time"

	"github.com/go-leadership/leadership/store"
)

// observe calls the hooks of a term except TermBegan and Acknowledged, one after the other, TermEnded last. It reports
// renewals, overdue renewals, and a missing acknowledgement.
func (t *Term) observe() {
	c := t.candidate
	told := t.lease.Last() // the renewal that was reported
	defer func() {         // also if a hook has ended the goroutine
		<-t.ctx.Done()
		cause := context.Cause(t.ctx)
		if errors.Is(cause, errRequested) {
			c.opts.Hooks.resignationRequested(c.election, t.Token())
		}
		c.opts.Hooks.termEnded(c.election, t.Token(), cause)
	}()
	began := time.Now()
	<-t.began
	timer := time.NewTimer(0)
	defer timer.Stop()
	warned := false
	for {
		last, remaining := t.lease.Last(), t.lease.Remaining()
		switch {
		case !last.Confirmed.Equal(told.Confirmed):
			told, warned = last, false
			c.opts.Hooks.renewed(c.election, t.Token(), last.Confirmed.Sub(last.Sent))
		case !warned && remaining < overdue(last):
			warned = true
			c.log.Warn("renewals are overdue, leadership ends soon without one", "token", t.Token(), "remaining", remaining)
			c.opts.Hooks.inJeopardy(c.election, t.Token(), remaining)
		}
		if time.Since(began) >= c.store.TTL() && !t.acknowledged.Load() && !c.warned.Swap(true) {
			c.log.Warn("leading for a TTL without an acknowledgement: "+
				"followers do not know of this leader until the takeover is acknowledged", "token", t.Token(), "ttl", c.store.TTL())
		}
		next := remaining // when there may be something to report, besides a renewal
		if !warned {
			next -= overdue(last)
		}
		if left := c.store.TTL() - time.Since(began); left > 0 {
			next = min(next, left)
		}
		timer.Reset(max(next, 10*time.Millisecond))
		select {
		case <-last.Changed:
		case <-timer.C:
		case <-t.ctx.Done():
			return
		}
	}
}

// overdue returns how much of the lease is left when the next renewal is overdue: a third. Over a slow link it comes later,
// when two round trips like that of the last one have passed: two thirds of what is left then, an eighth at least.
func overdue(last store.Renewal) time.Duration {
	if last.Deadline.IsZero() { // the lease has ended
		return 0
	}
	lease, trip := last.Deadline.Sub(last.Sent), last.Confirmed.Sub(last.Sent)
	return max(lease/8, min(lease/3, (lease-2*trip)*2/3))
}
