package conformance

import (
	"context"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
)

// liveness checks G3.
var liveness = []Case{
	{
		Name:     "resignation-hands-over",
		Promises: []string{"G3"},
		Explains: "when a leader resigns, the next in line leads without waiting for anything to expire",
		check: func(e *env) {
			a, b := e.open(), e.open()
			old := e.candidate(a, "a", nil)
			term := e.campaign(old)
			next := e.stand(b, "b", nil)
			e.ok(term.Withdraw(e.ctx), "resign")
			e.until("b leads", next.IsLeader)
			e.check(!old.IsLeader(), "a still leads")
		},
	},
	{
		Name:     "crash-is-taken-over",
		Promises: []string{"G3"},
		Explains: "when a leader crashes, its ballot expires and the next in line leads; if the old leader returns, it stays behind",
		check: func(e *env) {
			a, b := e.open(), e.open()
			old := e.stand(a, "a", nil)
			e.until("a leads", old.IsLeader)
			next := e.stand(b, "b", nil)
			a.Cut()
			e.until("b leads", next.IsLeader)
			a.Heal()
			e.until("a stands again", func() bool { return len(e.ballots(b)) == 2 })
			e.check(next.IsLeader(), "b no longer leads since a returned")
			e.until("a leads after b", func() bool {
				next.Resign()
				return old.IsLeader()
			})
		},
	},
	{
		Name:     "replies-lost-for-long",
		Promises: []string{"G3"},
		Explains: "a leader that gets no replies, though its requests arrive, does not keep the next in line waiting",
		check: func(e *env) {
			a, b := e.open(), e.open()
			old := e.stand(a, "a", nil)
			e.until("a leads", old.IsLeader)
			next := e.stand(b, "b", nil)
			a.LoseReplies()
			e.until("b leads", next.IsLeader)
			a.Heal()
			e.until("a stands again", func() bool { return len(e.ballots(b)) == 2 })
			e.check(next.IsLeader(), "b no longer leads since a returned")
		},
	},
	{
		Name:     "death-before-acknowledging",
		Promises: []string{"G3"},
		Explains: "no cast waits for an acknowledgement: a leader that dies before it acknowledges is replaced",
		check: func(e *env) {
			a, b := e.open(), e.open()
			e.first(e.cast(a, "a"))
			next := e.stand(b, "b", nil)
			a.Cut()
			e.until("b leads", next.IsLeader)
		},
	},
	{
		Name:     "lost-reply-makes-one-ballot",
		Promises: []string{"G3"},
		Explains: "a ballot whose confirmation was lost is found again: neither an orphan nor a second one stands",
		check: func(e *env) {
			a, b := e.open(), e.open()
			e.withdraw(e.cast(a, "a")) // the session is open, the election exists
			a.LoseReplies()
			type outcome struct {
				ballot store.Ballot
				err    error
			}
			cast := make(chan outcome, 1)
			go func() {
				ballot, err := a.Cast(e.ctx, e.election, "a")
				cast <- outcome{ballot, err}
			}()
			e.until("the request has been carried out", func() bool { return len(e.ballots(b)) > 0 })
			a.Heal()
			o := receive(e, cast, "the ballot")
			e.ok(o.err, "cast")
			e.until("one ballot stands", func() bool { return len(e.ballots(b)) == 1 })
			e.first(o.ballot)
			next := e.cast(b, "b")
			e.withdraw(o.ballot)
			e.first(next)
		},
	},
	{
		Name:     "abandoned-cast-leaves-no-ballot",
		Promises: []string{"G3"},
		Explains: "a cast that is given up while its outcome is unknown leaves no ballot in the way of the others",
		check: func(e *env) {
			a, b := e.open(), e.open()
			e.withdraw(e.cast(a, "a"))
			a.LoseReplies()
			ctx, cancel := context.WithCancel(e.ctx)
			defer cancel()
			given := make(chan error, 1)
			go func() {
				_, err := a.Cast(ctx, e.election, "a")
				given <- err
			}()
			e.until("the request has been carried out", func() bool { return len(e.ballots(b)) > 0 })
			cancel()
			e.check(receive(e, given, "the end of the cast") != nil, "a cast that was given up succeeded")
			a.Heal()
			e.first(e.cast(b, "b"))
			e.until("only b's ballot stands", func() bool { return len(e.ballots(b)) == 1 })
		},
	},
	{
		Name:     "repeated-withdrawal-spares-the-next-ballot",
		Promises: []string{"G3", "G5"},
		Explains: "repeating a withdrawal whose answer was lost leaves the candidate's newer ballot alone",
		check: func(e *env) {
			a, b := e.open(), e.open()
			old := e.cast(a, "a")
			e.first(old)
			e.acknowledge(old, "a")
			a.LoseReplies()
			ctx, cancel := context.WithCancel(e.ctx)
			defer cancel()
			withdrawn := make(chan error, 1)
			go func() { withdrawn <- old.Withdraw(ctx) }()
			e.until("the ballot is gone", func() bool { return len(e.ballots(b)) == 0 })
			cancel()
			e.check(receive(e, withdrawn, "the end of the withdrawal") != nil, "the lost answer arrived")
			a.Heal()
			again := e.cast(a, "a")
			e.first(again)
			leader := e.acknowledge(again, "a")
			e.withdraw(old)
			e.check(again.Err() == nil, "the newer ballot is lost: %v", again.Err())
			e.check(len(e.ballots(b)) == 1, "%d ballots stand, not 1", len(e.ballots(b)))
			e.check(e.leader(b) == leader, "the acknowledgement is gone")
		},
	},
	{
		Name:     "abandoned-withdrawal-goes-on",
		Promises: []string{"G3"},
		Explains: "a withdrawal that is given up goes on in the background: the ballot blocks no other",
		check: func(e *env) {
			a, b := e.open(), e.open()
			old, next := e.cast(a, "a"), e.cast(b, "b")
			e.first(old)
			a.Cut()
			e.ends("Withdraw", func(ctx context.Context) error { return old.Withdraw(ctx) })
			a.Heal()
			e.first(next)
		},
	},
	{
		Name:     "outage-longer-than-the-session",
		Promises: []string{"G3", "G1"},
		Explains: "after an outage in which all sessions expire, candidates open new ones, stand again, and one leads",
		check: func(e *env) {
			observer := e.open()
			members := []*member{e.open(), e.open(), e.open()}
			var all []*leadership.Candidate
			for _, m := range members {
				all = append(all, e.stand(m, "value", nil))
			}
			e.until("one leads", func() bool { return leading(all) == 1 })
			for _, m := range members {
				m.Cut()
			}
			e.until("all ballots have expired", func() bool { return len(e.ballots(observer)) == 0 })
			e.check(leading(all) == 0, "a candidate leads without a ballot")
			for _, m := range members {
				m.Heal()
			}
			e.until("all stand again and one leads", func() bool {
				return len(e.ballots(observer)) == len(members) && leading(all) == 1
			})
		},
	},
	{
		Name:     "alone-after-a-partition",
		Promises: []string{"G3"},
		Explains: "a candidate that is alone in its election leads again after it was cut off",
		check: func(e *env) {
			a, observer := e.open(), e.open()
			c := e.stand(a, "a", nil)
			e.until("a leads", c.IsLeader)
			a.Cut()
			e.until("its ballot has expired", func() bool { return len(e.ballots(observer)) == 0 })
			a.Heal()
			e.until("a leads again", c.IsLeader)
		},
	},
	{
		Name:     "unreachable-at-the-start",
		Promises: []string{"G3"},
		Explains: "a candidate that starts while the store can't be reached joins once it can",
		check: func(e *env) {
			a := e.open()
			a.Cut()
			c := e.candidate(a, "a", nil)
			e.run(c, leadership.Lead)
			f := e.follower(a)
			f.Start()
			e.during(e.h.TTL/10, "no candidate leads on a cut line", func() bool { return !c.IsLeader() }) // they try meanwhile
			a.Heal()
			e.until("a leads", c.IsLeader)
			leader, err := f.Wait(e.ctx)
			e.ok(err, "wait for a leader")
			e.check(leader.Value == "a", "the leader is %q", leader.Value)
		},
	},
	{
		Name:     "removed-waiters-stand-again",
		Promises: []string{"G3"},
		Explains: "when all keys of an election are removed while candidates wait, they stand again and one leads",
		check: func(e *env) {
			members := []*member{e.open(), e.open(), e.open()}
			var all []*leadership.Candidate
			for _, m := range members {
				all = append(all, e.stand(m, "value", nil))
			}
			e.until("one leads", func() bool { return leading(all) == 1 })
			e.ok(e.h.Clear(e.ctx, e.election), "remove the election's keys")
			e.until("all stand again and one leads", func() bool {
				return len(e.ballots(members[0])) == len(members) && leading(all) == 1
			})
		},
	},
	{
		Name:     "slow-line",
		Promises: []string{"G3"},
		Explains: "an election works over a slow line, as long as renewals come in time",
		check: func(e *env) {
			a, b, observer := e.open(), e.open(), e.open()
			a.Delay(e.h.TTL / 50)
			b.Delay(e.h.TTL / 50)
			old := e.candidate(a, "a", nil)
			term := e.campaign(old)
			e.ok(term.Acknowledge(e.ctx), "acknowledge")
			next := e.candidate(b, "b", nil)
			e.standing(observer, "b", func() { e.run(next, leadership.Lead) })
			e.ok(term.Withdraw(e.ctx), "resign")
			e.until("b leads", next.IsLeader)
		},
	},
}

// leading counts the candidates that lead.
func leading(all []*leadership.Candidate) int {
	n := 0
	for _, c := range all {
		if c.IsLeader() {
			n++
		}
	}
	return n
}
