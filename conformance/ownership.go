package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"go.uber.org/goleak"
)

// ownership checks G7.
var ownership = []Case{
	{
		Name:     "stop-leaves-nothing",
		Promises: []string{"G7"},
		Explains: "when Done is closed no ballot, acknowledgement or goroutine of a candidate or follower is left",
		check: func(e *env) {
			a, observer := e.open(), e.open()
			e.leavesNothing(func() {
				leader, waiter := e.candidate(a, "a", nil), e.candidate(observer, "b", nil)
				e.run(leader, leadership.Lead)
				e.until("a leads", leader.IsLeader)
				e.standing(observer, "b", func() { e.run(waiter, leadership.Lead) })
				f := e.follower(observer)
				_, err := f.Wait(e.ctx)
				e.ok(err, "wait for the leader")
				f.Stop()
				e.done(f)
				waiter.Stop()
				e.done(waiter)
				leader.Stop()
				e.done(leader)
				left := e.ballots(observer)
				e.check(len(left) == 0, "ballots are left: %v", left)
				e.until("no leader is acknowledged", func() bool { return e.leader(observer) == store.Leader{} })
			})
		},
	},
	{
		Name:     "close-leaves-nothing",
		Promises: []string{"G7"},
		Explains: "after Close no goroutine of the store is left, its ballots vanish, and calls that wait end",
		check: func(e *env) {
			before := goleak.IgnoreCurrent()
			m := e.openClosed() // the only store, since goroutines of another that reconnects would be counted
			leader, waiter := e.cast(m, "a"), e.cast(m, "a")
			e.first(leader)
			e.acknowledge(leader, "a")
			ended := make(chan error, 2)
			prev := e.leader(m)
			go func() { ended <- waiter.Wait(e.ctx) }()
			go func() { _, err := e.next(e.ctx, m, prev); ended <- err }()
			e.during(e.h.TTL/50, "both wait", func() bool { return len(ended) == 0 })
			var closing sync.WaitGroup
			for range 3 {
				closing.Go(func() { e.ok(m.Close(), "close") })
			}
			closing.Wait()
			for range 2 {
				e.check(receive(e, ended, "the end of what was waiting") != nil, "waiting ended without an error")
			}
			_, err := m.Cast(e.ctx, e.election, "a")
			e.check(errors.Is(err, store.ErrClosed), "cast after Close: %v", err)
			_, err = m.Observe(e.ctx, e.election, nil)
			e.check(errors.Is(err, store.ErrClosed), "reading the leader after Close: %v", err)
			if err := goleak.Find(before); err != nil {
				e.Fatalf("goroutines are left: %v", err)
			}
			observer := e.open()
			e.until("its ballots are gone", func() bool { return len(e.ballots(observer)) == 0 })
			e.until("its acknowledgement is gone", func() bool { return e.leader(observer) == store.Leader{} })
		},
	},
	{
		Name:     "close-under-a-candidate",
		Promises: []string{"G7", "G1"},
		Explains: "closing the store under running candidates and followers ends them with ErrClosed",
		check: func(e *env) {
			m := e.openClosed()
			c, err := leadership.NewCandidate(m, e.election, "a", silent)
			e.ok(err, "make a candidate")
			defer c.Stop()
			ran := make(chan error, 1)
			go func() { ran <- c.Run(e.ctx, leadership.Lead) }()
			e.until("a leads", c.IsLeader)
			f, err := leadership.NewFollower(m, e.election, &leadership.FollowerOptions{Logger: silent.Logger})
			e.ok(err, "make a follower")
			defer f.Stop()
			f.Start()
			behind := e.cast(m, "b") // has the lease of the candidate's term
			e.ok(m.Close(), "close")
			e.check(!c.IsLeader(), "the candidate still leads")
			_, holds := behind.Lease().Span()
			e.check(!holds, "the lease holds after Close")
			err = receive(e, ran, "the end of Run")
			e.check(errors.Is(err, leadership.ErrClosed), "Run returned %v", err)
			e.done(f)
			e.check(errors.Is(f.Err(), leadership.ErrClosed), "the follower's error is %v", f.Err())
		},
	},
	{
		Name:     "close-is-why-terms-end",
		Promises: []string{"G7"},
		Explains: "terms that closing the store ends say so: by when the lease is seen to end, the ballot's error is ErrClosed",
		check: func(e *env) {
			m := e.openClosed()
			var terms []*leadership.Term
			for i := range 20 { // a single term would often be told in time by luck
				name := fmt.Sprintf("%s/%d", e.election, i)
				e.onClose(func() { e.ok(e.h.Clear(e.ctx, name), "clear %q", name) })
				c, err := leadership.NewCandidate(m, name, "a", silent)
				e.ok(err, "make a candidate")
				defer c.Stop()
				term := e.campaign(c)
				terms = append(terms, term)
			}
			e.ok(m.Close(), "close")
			for _, term := range terms {
				receiveClosed(e, term.Context().Done(), "the end of a term")
				cause := context.Cause(term.Context())
				e.check(errors.Is(cause, store.ErrClosed), "a term ended because: %v", cause)
			}
		},
	},
	{
		Name:     "many-starts-and-stops",
		Promises: []string{"G7"},
		Explains: "standing and withdrawing behind a leader again and again leaves nothing behind",
		check: func(e *env) {
			a, b := e.open(), e.open()
			leader := e.cast(a, "a")
			e.first(leader)
			e.leavesNothing(func() {
				for range 50 {
					e.withdraw(e.cast(b, "b"))
				}
				e.check(len(e.ballots(a)) == 1, "%d ballots stand, not 1", len(e.ballots(a)))
			})
		},
	},
}

// leavesNothing calls f several times. One of the calls has to leave no goroutine: the first might open what the store
// opens on demand. A goroutine that is left is no leak if another one has ended: the store has then opened a session or
// a connection again.
func (e *env) leavesNothing(do func()) {
	e.TB.Helper()
	var err error
	for range 8 { // a store may open a connection more in several of them, up to its limit
		e.pass(e.h.TTL / 500) // until goroutines that are ending have ended: they would hide one that is left
		before, count := goleak.IgnoreCurrent(), goroutines()
		do()
		for end := time.Now().Add(e.h.Lingering); ; {
			if err = goleak.Find(before); err == nil || goroutines() <= count {
				return
			}
			if time.Now().After(end) {
				break
			}
		}
	}
	e.Fatalf("goroutines are left: %v", err)
}

// goroutines returns how many there are. runtime.NumGoroutine counts up to 32 more for a moment, while the scheduler puts
// those that have ended from one list into another.
func goroutines() int {
	n, _ := runtime.GoroutineProfile(make([]runtime.StackRecord, 1)) // counted while the world is stopped
	return n
}
