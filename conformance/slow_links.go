package conformance

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
)

// slowLinks checks the arithmetic of leases on links whose round trip takes a good part of the TTL.
var slowLinks = []Case{
	{
		Name:     "lease-counts-from-the-request",
		Promises: []string{"G1"},
		Explains: "a lease counts from when its renewal was sent, not from when the answer came, even at the least grace",
		check: func(e *env) {
			a, b := e.openLeast(), e.open()
			delay := e.h.TTL / 5
			leader, waiter := e.cast(a, "a"), e.cast(b, "b")
			span, ok := e.renewedSlowly(a, leader, delay)
			for ; !ok; span, ok = e.renewedSlowly(a, leader, delay) {
				e.Logf("the lease did not last with replies delayed by %v: once more", delay)
				delay = max(delay*4/5, e.h.TTL/10) // more than the least grace
				a.DelayReplies(0)
				e.withdraw(leader)
				e.withdraw(waiter)
				leader, waiter = e.cast(a, "a"), e.cast(b, "b")
			}
			lease := leader.Lease()
			won := make(chan bool, 1)
			go func() {
				_ = waiter.Wait(e.ctx)
				won <- lease.Holds(span)
			}()
			a.Cut()
			// The service has answered the last renewal by now less the delay, so that it was sent before that.
			end := time.Now().Add(e.h.TTL - delay)
			var held time.Time
			e.until("the lease is over", func() bool {
				now := time.Now()
				if !lease.Holds(span) {
					return true
				}
				held = now
				return false
			})
			e.check(held.Before(end), "the lease holds %v after the session might have ended", held.Sub(end))
			e.check(!receive(e, won, "b's turn"), "the lease of a holds when b is first")
		},
	},
	{
		Name:     "lease-leaves-a-grace",
		Promises: []string{"G1"},
		Explains: "a lease ends at least a twelfth of the TTL before the session can",
		check: func(e *env) {
			for _, m := range []*member{e.open(), e.openLeast()} {
				ballot := e.cast(m, "a")
				e.first(ballot)
				e.until("the lease holds", func() bool { return !ballot.Lease().Last().Deadline.IsZero() })
				for range 3 {
					last := ballot.Lease().Last()
					lasts := last.Deadline.Sub(last.Sent)
					e.check(lasts <= e.h.TTL-e.h.TTL/12, "a lease lasts %v of a TTL of %v", lasts, e.h.TTL)
					receiveClosed(e, last.Changed, "a renewal")
				}
				e.withdraw(ballot)
			}
		},
	},
	{
		Name:     "slow-head-gives-way",
		Promises: []string{"G3"},
		Explains: "a candidate whose answers take too long for its lease to hold does not keep those behind it from leading",
		check: func(e *env) {
			a, b, c := e.open(), e.open(), e.open()
			leader := e.cast(a, "a")
			e.first(leader)
			slow := e.stand(b, "b", nil)
			next := e.stand(c, "c", nil)
			b.DelayReplies(e.h.TTL * 7 / 10)
			e.pass(e.h.TTL) // its lease is over, and each renewal of its session is late
			e.check(!slow.IsLeader() && !next.IsLeader(), "a candidate leads beside a")
			began := e.begin()
			e.withdraw(leader)
			e.until("c leads", next.IsLeader)
			e.within(began, 3*e.h.TTL, "c leads")
		},
	},
	{
		Name:     "long-round-trips",
		Promises: []string{"G3"},
		Explains: "a candidate leads and keeps leading at round trips up to an eighth of the TTL",
		check: func(e *env) {
			since := map[*leadership.Candidate]time.Time{} // when each was last seen not to lead; only those that have to keep on
			for i, share := range []time.Duration{40, 13, 8} {
				name := fmt.Sprintf("%s/%d", e.election, i)
				e.onClose(func() { e.ok(e.h.Clear(e.ctx, name), "clear %q", name) })
				m := e.openSlow(e.h.TTL / share / 2)
				c, err := leadership.NewCandidate(m, name, "a", silent)
				e.ok(err, "make a candidate")
				e.onClose(c.Stop)
				e.run(c, leadership.Lead)
				since[c] = time.Now()
			}
			e.until("each candidate has led for three TTLs without a break", func() bool {
				for c, began := range since {
					switch {
					case !c.IsLeader():
						since[c] = time.Now()
					case time.Since(began) > 3*e.h.TTL:
						delete(since, c)
					}
				}
				return len(since) == 0
			})
		},
	},
	{
		Name:     "no-term-without-a-renewal",
		Promises: []string{"G3"},
		Explains: "a slow link ends no term before the first renewal can come: the term begins later, or not at all",
		check: func(e *env) {
			var links sync.WaitGroup
			var opening sync.Mutex // held while a store is opened
			open := func(roundTrip time.Duration, name string) *member {
				opening.Lock()
				defer opening.Unlock()
				e.onClose(func() { e.ok(e.h.Clear(e.ctx, name), "clear %q", name) })
				return e.openSlow(roundTrip / 2)
			}
			for _, percent := range []time.Duration{155, 170, 185, 200} { // of a thousand
				roundTrip := e.h.TTL * percent / 1000
				name := fmt.Sprintf("%s/%d", e.election, percent)
				links.Go(func() {
					// A term that ends since this process stood still shows nothing. The arithmetic of a store is wrong each time.
					for ended := 0; ended < 3; {
						began := e.begin()
						if e.firstTermLasts(open(roundTrip, name), name) {
							return
						}
						if e.meter.Stalled()-began.stalled < e.h.TTL/32 {
							ended++
						}
					}
					e.Errorf("three terms ended before their first renewal, each the first of its session, at a round trip of %v", roundTrip)
				})
			}
			links.Wait()
		},
	},
}

// firstTermLasts casts a ballot and reports false if the lease of the first term ends without a renewal.
func (e *env) firstTermLasts(m *member, election string) bool {
	soon, cancel := context.WithTimeout(e.ctx, 5*e.h.TTL)
	defer cancel()
	b, err := tryCast(soon, m, election, "a")
	if err == nil {
		err = b.Wait(soon)
	}
	if err != nil { // no link to lead on
		return true
	}
	defer b.Withdraw(e.ctx)
	select {
	case <-b.Lease().Last().Changed:
		return b.Lease().Remaining() > 0
	case <-e.ctx.Done():
		e.Errorf("waited in vain for a renewal")
		return true
	}
}

// renewedSlowly delays the replies to a member, and returns in the moment in which the lease of its ballot has been
// renewed by one of them. It reports false if the lease did not last until then.
func (e *env) renewedSlowly(m *member, ballot store.Ballot, delay time.Duration) (store.Span, bool) {
	e.TB.Helper()
	e.first(ballot)
	lease := ballot.Lease()
	span, held := lease.Span()
	for ; !held && ballot.Err() == nil; span, held = lease.Span() {
		receiveClosed(e, lease.Last().Changed, "the first renewal")
	}
	m.DelayReplies(delay)
	delayed := time.Now().Add(delay) // what comes from then on was held back for the whole delay
	for {
		last := lease.Last()
		if !lease.Holds(span) {
			return span, false
		}
		select {
		case <-last.Changed:
		case <-time.After(lease.Remaining()):
		case <-e.ctx.Done():
			e.Fatalf("waited in vain for a renewal")
		}
		if time.Now().After(delayed) && lease.Holds(span) {
			return span, true
		}
	}
}
