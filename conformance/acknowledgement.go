package conformance

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
)

// acknowledgement checks G5.
var acknowledgement = []Case{
	{
		Name:     "told-after-the-acknowledgement",
		Promises: []string{"G5"},
		Explains: "followers hear of a leader when its takeover is done and acknowledged, not before",
		check: func(e *env) {
			a, b := e.open(), e.open()
			f := e.follower(b)
			f.Start()
			winner := e.candidate(a, "a", nil)
			takingOver, done := make(chan struct{}), make(chan struct{})
			goOn := sync.OnceFunc(func() { close(done) })
			e.onClose(goOn)
			e.run(winner, func(ctx context.Context, term *leadership.Term) error {
				close(takingOver)
				<-done
				return leadership.Lead(ctx, term)
			})
			receiveClosed(e, takingOver, "a's takeover")
			loser := e.stand(b, "b", nil)
			e.during(e.h.TTL/4, "it is not told during the takeover", func() bool {
				_, known := f.Leader()
				return !known
			})
			e.check(winner.IsLeader(), "a does not lead during its takeover")
			goOn()
			leader, err := f.Wait(e.ctx)
			e.ok(err, "wait for the leader")
			e.check(leader.Value == "a", "the follower was told of %q", leader.Value)
			e.check(!loser.IsLeader(), "the loser leads")
		},
	},
	{
		Name:     "failed-takeover-is-never-acknowledged",
		Promises: []string{"G5", "G3"},
		Explains: "a candidate that fails to take over is not acknowledged and gives the ballot back; the next in line leads",
		check: func(e *env) {
			a, b := e.open(), e.open()
			failing := e.candidate(a, "a", nil)
			done := make(chan struct{})
			goOn := sync.OnceFunc(func() { close(done) })
			e.onClose(goOn)
			e.standing(a, "a", func() {
				e.run(failing, func(context.Context, *leadership.Term) error { <-done; return errors.New("disk full") })
			})
			next := e.stand(b, "b", nil)
			f := e.follower(b)
			f.Start()
			e.during(e.h.TTL/50, "no leader is acknowledged during the takeover", func() bool {
				return e.leader(b) == store.Leader{}
			})
			goOn()
			e.until("b leads", next.IsLeader)
			leader, err := f.Wait(e.ctx)
			e.ok(err, "wait for the leader")
			e.check(leader.Value == "b", "the follower was told of %q", leader.Value)
		},
	},
	{
		Name:     "no-leader-is-told-once",
		Promises: []string{"G5"},
		Explains: "a follower of an election without a leader is told so at once and once, and leaves no trace in it",
		check: func(e *env) {
			a := e.open()
			seen := e.changes(e.follower(a))
			e.check(receive(e, seen, "the first state") == leadership.Leader{}, "told of a leader")
			e.during(e.h.TTL/4, "it was told once", func() bool { return len(seen) == 0 })
			e.check(len(e.ballots(a)) == 0, "a follower made a ballot")
		},
	},
	{
		Name:     "followers-see-every-leader",
		Promises: []string{"G5", "G3"},
		Explains: "a follower sees the leader that is there when it starts, its death, and each new one",
		check: func(e *env) {
			a, b, c := e.open(), e.open(), e.open()
			old := e.cast(a, "a")
			e.first(old)
			record := e.acknowledge(old, "a")
			seen := e.changes(e.follower(c)) // late
			got := receive(e, seen, "the present leader")
			e.check(got == record, "the late follower saw %v, not %v", got, record)
			next := e.cast(b, "b")
			a.Cut()
			e.first(next)
			got = receive(e, seen, "the leader's death")
			e.check(got == leadership.Leader{}, "after the crash the follower saw %v", got)
			e.nothing(seen, "before another has acknowledged")
			second := e.acknowledge(next, "b")
			e.check(second.Revision > record.Revision, "revision %d after %d", second.Revision, record.Revision)
			for got = receive(e, seen, "the new leader"); got != second; got = receive(e, seen, "the new leader") {
				e.check(repeats(second, got) && got.Revision > record.Revision, "the follower saw %v, not %v", got, second)
			}
			e.nothing(seen, "though nothing has changed")
			e.withdraw(next)
			got = receive(e, seen, "the second leader's resignation")
			e.check(got == leadership.Leader{}, "after the resignation the follower saw %v", got)
		},
	},
	{
		Name:     "only-the-first-acknowledges",
		Promises: []string{"G5"},
		Explains: "the store refuses an acknowledgement by a ballot that is not first, or no longer stands",
		check: func(e *env) {
			a, b := e.open(), e.open()
			leader, waiter := e.cast(a, "a"), e.cast(b, "b")
			e.first(leader)
			record := e.acknowledge(leader, "a")
			_, err := waiter.Acknowledge(e.ctx, "b")
			e.check(errors.Is(err, store.ErrNotFirst), "the waiter's acknowledgement: %v", err)
			e.check(e.leader(b) == record, "the waiter changed the acknowledgement")
			e.withdraw(leader)
			e.first(waiter)
			next := e.acknowledge(waiter, "b")
			_, err = leader.Acknowledge(e.ctx, "a")
			e.check(errors.Is(err, store.ErrLost), "the withdrawn leader's acknowledgement: %v", err)
			e.check(e.leader(a) == next, "the withdrawn leader changed the acknowledgement")
		},
	},
	{
		Name:     "late-acknowledgement-changes-nothing",
		Promises: []string{"G5"},
		Explains: "an acknowledgement that reaches the store when its ballot is gone is refused there",
		check: func(e *env) {
			a, b := e.open(), e.open()
			old := e.cast(a, "a")
			e.first(old)
			a.Cut()
			late := make(chan error, 1)
			go func() {
				_, err := old.Acknowledge(e.ctx, "a")
				late <- err
			}()
			e.during(e.h.TTL/50, "the acknowledgement hangs", func() bool { return len(late) == 0 })
			e.ok(e.h.Clear(e.ctx, e.election), "remove the election's keys, while the session lives")
			next := e.cast(b, "b")
			e.first(next)
			record := e.acknowledge(next, "b")
			a.DelayReplies(e.h.TTL / 20) // the request arrives before the news that the ballot is gone
			a.Heal()
			e.check(receive(e, late, "the late acknowledgement") != nil, "a ballot that is gone acknowledged")
			e.check(e.leader(b) == record, "a ballot that is gone changed the acknowledgement")
		},
	},
	{
		Name:     "acknowledgement-goes-with-the-ballot",
		Promises: []string{"G5"},
		Explains: "a withdrawn ballot takes its acknowledgement with it; so does one that expires",
		check: func(e *env) {
			a, b := e.open(), e.open()
			ballot := e.cast(a, "a")
			e.first(ballot)
			first := e.acknowledge(ballot, "a")
			e.until("the leader is known", func() bool { return e.leader(b) == first })
			e.withdraw(ballot)
			e.until("there is no leader", func() bool { return e.leader(b) == store.Leader{} })
			ballot = e.cast(a, "a")
			e.first(ballot)
			second := e.acknowledge(ballot, "a")
			e.check(second.Revision > first.Revision, "revision %d after %d", second.Revision, first.Revision)
			a.Cut()
			e.until("there is no leader", func() bool { return e.leader(b) == store.Leader{} })
		},
	},
	{
		Name:     "lost-reply-to-an-acknowledgement",
		Promises: []string{"G5"},
		Explains: "an acknowledgement whose confirmation was lost is repeated until it is known to be made",
		check: func(e *env) {
			a, b := e.open(), e.open()
			candidate := e.candidate(a, "a", nil)
			term, err := e.acknowledgeInVain(candidate, a, b)
			for term.Context().Err() != nil {
				e.Logf("the lease did not last until the replies came again: once more")
				e.ok(term.Withdraw(e.ctx), "resign")
				term, err = e.acknowledgeInVain(candidate, a, b)
			}
			e.ok(err, "acknowledge")
			e.check(e.leader(b).Value == "a", "the leader is %q", e.leader(b).Value)
			e.ok(term.Withdraw(e.ctx), "resign")
		},
	},
	{
		Name:     "values-are-bytes",
		Promises: []string{"G5"},
		Explains: "the acknowledged value is exactly the bytes that the leader gave, whatever they are",
		check: func(e *env) {
			a, b := e.open(), e.open()
			ballot := e.cast(a, "")
			e.first(ballot)
			for _, value := range []string{"host:1", "", "\x00\xff\xfe binary\n", string(make([]byte, store.MaxValue))} {
				record := e.acknowledge(ballot, value)
				e.check(record.Value == value, "acknowledged %d bytes, the record has %d", len(value), len(record.Value))
				e.until("the value can be read", func() bool { return e.leader(b) == record })
			}
		},
	},
}

// acknowledgeInVain lets a candidate acknowledge a new term while replies to it are lost, until the other member sees
// that. The term might end meanwhile, but not before the deadline that its lease had when the first reply was lost.
func (e *env) acknowledgeInVain(c *leadership.Candidate, own, other *member) (*leadership.Term, error) {
	e.TB.Helper()
	term := e.campaign(c)
	own.LoseReplies()
	remaining := term.Remaining() // zero if the term is over
	deadline := time.Now().Add(remaining)
	acknowledged := make(chan error, 1)
	go func() { acknowledged <- term.Acknowledge(e.ctx) }()
	e.until("the request has been carried out, or the term is over", func() bool {
		return e.leader(other).Value == "a" || term.Context().Err() != nil
	})
	own.Heal()
	err := receive(e, acknowledged, "the acknowledgement")
	if left := time.Until(deadline); term.Context().Err() != nil && remaining > 0 {
		e.check(left <= 0, "the term ended %v before its lease: %v", left, err)
	}
	return term, err
}

// repeats reports whether l is the acknowledgement other, or a repetition of it after an unknown outcome.
func repeats(l, other store.Leader) bool {
	return l.Value == other.Value && l.Revision >= other.Revision
}

// nothing checks for a moment that the follower sees no change.
func (e *env) nothing(seen <-chan leadership.Leader, why string) {
	e.TB.Helper()
	select {
	case leader := <-seen:
		e.check(false, "the follower saw %v %s", leader, why)
	case <-time.After(e.h.TTL / 50):
	}
}

func receiveClosed(e *env, ch <-chan struct{}, what string) {
	e.TB.Helper()
	select {
	case <-ch:
	case <-e.ctx.Done():
		e.Fatalf("waited in vain for %s", what)
	}
}
