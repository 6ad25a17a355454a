package conformance

import (
	"context"
	"errors"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
)

// oneLeader checks G1.
var oneLeader = []Case{
	{
		Name:     "cut-off-leader-stops-first",
		Promises: []string{"G1", "G3"},
		Explains: "a leader that is cut off from the store stops by its own clock before its session can expire there",
		check: func(e *env) {
			a, b := e.open(), e.open()
			old := e.stand(a, "a", nil)
			e.until("a leads", old.IsLeader)
			both := make(chan bool, 1)
			next := e.stand(b, "b", &leadership.CandidateOptions{Logger: silent.Logger, Events: func(event leadership.Event) {
				if event.Kind != leadership.TermBegan {
					return
				}
				select {
				case both <- old.IsLeader():
				default: // it leads again
				}
			}})
			a.Cut()
			e.until("b leads", func() bool {
				e.check(!next.IsLeader() || !old.IsLeader(), "two leaders") // b is asked first: if it leads, it still does when a is asked
				return next.IsLeader()
			})
			e.check(!receive(e, both, "b's victory"), "a still saw itself as leader when b won")
		},
	},
	{
		Name:     "first-answer-after-a-pause",
		Promises: []string{"G1", "G3"},
		Explains: "IsLeader compares the clock with the deadline: it is right in its first call after a long silence",
		check: func(e *env) {
			a, b := e.open(), e.open()
			old := e.stand(a, "a", nil)
			e.until("a leads", old.IsLeader)
			next := e.stand(b, "b", nil)
			a.Cut() // a does nothing from here on, as if paused
			e.until("b leads", next.IsLeader)
			e.check(!old.IsLeader(), "a's first answer after its pause is that it leads")
		},
	},
	{
		Name:     "late-confirmation-revives-nothing",
		Promises: []string{"G1"},
		Explains: "a term whose deadline has passed stays over when the session is confirmed after all",
		check: func(e *env) {
			a := e.open()
			c := e.candidate(a, "a", nil)
			term := e.campaign(c)
			waiter := e.cast(a, "b") // shares the session and its lease
			a.Cut()
			e.until("the term's deadline has passed", func() bool { return !c.IsLeader() })
			before := waiter.Lease().Last().Sent
			a.Heal()
			e.until("the session is confirmed, or over", func() bool {
				return waiter.Lease().Last().Sent.After(before) || waiter.Err() != nil // on a busy machine the session can expire
			})
			e.check(!c.IsLeader() && term.Remaining() == 0, "a confirmation revived the term")
			receiveClosed(e, term.Context().Done(), "the end of the term's context")
			e.ok(term.Withdraw(e.ctx), "give the ballot back")
		},
	},
	{
		Name:     "hanging-call-holds-nothing-up",
		Promises: []string{"G1"},
		Explains: "leadership ends on time while a call to the store hangs, and the call ends with it",
		check: func(e *env) {
			a := e.open()
			c := e.candidate(a, "a", nil)
			term := e.campaign(c)
			a.Cut()
			hung := make(chan error, 1)
			go func() { hung <- term.Acknowledge(e.ctx) }()
			e.until("leadership has ended", func() bool { return !c.IsLeader() })
			e.check(receive(e, hung, "the end of the hanging call") != nil, "an acknowledgement got through a cut line")
			a.Heal()
			e.ok(term.Withdraw(e.ctx), "give the ballot back")
		},
	},
	{
		Name:     "waiter-with-a-lost-session-never-wins",
		Promises: []string{"G1", "G3"},
		Explains: "a ballot whose session has expired wins nothing, even if its predecessor goes at the same time",
		check: func(e *env) {
			a, b, c := e.open(), e.open(), e.open()
			leader := e.cast(a, "a")
			e.first(leader)
			waiter := e.cast(b, "b")
			b.Cut()
			e.until("b's ballot has expired", func() bool { return len(e.ballots(a)) == 1 })
			successor := e.cast(c, "c")
			e.withdraw(leader)
			e.first(successor)
			b.Heal()
			e.check(waiter.Wait(e.ctx) != nil, "the expired ballot became first")
			_, err := waiter.Acknowledge(e.ctx, "b")
			e.check(err != nil, "the expired ballot acknowledged")
			e.check(successor.Err() == nil, "the successor lost: %v", successor.Err())
		},
	},
	{
		Name:     "removed-leader-steps-down",
		Promises: []string{"G1", "G3"},
		Explains: "a leader whose ballot an operator removes notices, steps down, and stands again with a new token",
		check: func(e *env) {
			a := e.open()
			c := e.candidate(a, "a", nil)
			term := e.campaign(c)
			e.ok(e.h.Clear(e.ctx, e.election), "remove the election's keys")
			e.until("the leader has noticed", func() bool { return !c.IsLeader() })
			e.ok(term.Withdraw(e.ctx), "give the ballot back")
			again := e.campaign(c)
			e.check(again.Token() > term.Token(), "token %d after %d", again.Token(), term.Token())
			e.ok(again.Withdraw(e.ctx), "resign")
		},
	},
	{
		Name:     "renewal-keeps-others-out",
		Promises: []string{"G1"},
		Explains: "a session that is renewed does not expire: its leader stays, and no other ballot becomes first",
		check: func(e *env) {
			a, b := e.open(), e.open()
			leader := e.cast(a, "a")
			e.first(leader)
			waiter := e.cast(b, "b")
			early := make(chan error, 1)
			ctx, cancel := context.WithCancel(e.ctx)
			defer cancel()
			go func() { early <- waiter.Wait(ctx) }()
			e.during(2*e.h.TTL+e.h.TTL/2, "the leader's ballot stands", func() bool {
				if err := leader.Err(); err != nil {
					e.TB.Logf("%v", err)
					return false
				}
				return true
			})
			select {
			case err := <-early:
				e.check(err != nil, "the next in line is first while the leader stands")
				e.check(errors.Is(err, store.ErrLost), "waiting failed: %v", err)
				e.TB.Logf("on a busy machine the session can expire: %v", err)
			default:
			}
		},
	},
}
