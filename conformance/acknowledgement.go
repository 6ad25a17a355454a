package conformance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
)

// acknowledgement checks G5.
var acknowledgement = []Case{
	{
		Name:     "told-after-the-acknowledgement",
		Promises: []string{"G5"},
		Explains: "followers and losers hear of a leader when its takeover is done and acknowledged, not before",
		check: func(e *env) {
			a, b := e.open(), e.open()
			f := e.follower(b)
			f.Start()
			winner := e.candidate(a, "a", nil)
			takingOver, done := make(chan struct{}), make(chan struct{})
			goOn := sync.OnceFunc(func() { close(done) })
			e.onClose(goOn)
			winner.OnWon(func(context.Context, *leadership.Term) error { close(takingOver); <-done; return nil })
			winner.RunForElection()
			receiveClosed(e, takingOver, "a's takeover")
			loser := e.candidate(b, "b", nil)
			told := make(chan leadership.Leader, 8)
			loser.OnNewLeader(func(_ context.Context, l leadership.Leader) { told <- l })
			e.standing(b, "b", func() { loser.RunForElection() })
			e.during(e.h.TTL/4, "neither is told during the takeover", func() bool {
				_, known := f.Leader()
				return !known && len(told) == 0
			})
			e.check(winner.IsLeader(), "a does not lead during its takeover")
			goOn()
			l := receive(e, told, "the loser's callback")
			e.check(l.Value == "a", "the loser was told of %q", l.Value)
			leader, err := f.Wait(e.ctx)
			e.ok(err, "wait for the leader")
			e.check(repeats(leader, l), "the follower knows %v, the loser %v", leader, l)
			e.check(!loser.IsLeader(), "the loser leads")
		},
	},
	{
		Name:     "winners-and-losers-callbacks",
		Promises: []string{"G5", "G4", "G3", "G1"},
		Explains: "the winner's won callbacks run and each loser is told once of every leader, the third in line too",
		check: func(e *env) {
			log := &callLog{takeover: e.h.TTL / 50}
			members := []*member{e.open(), e.open(), e.open()}
			var all []*leadership.Candidate
			for i, m := range members {
				c := e.candidate(m, "123"[i:i+1], nil)
				log.register(c, "123"[i:i+1])
				e.standing(m, "one more", func() { c.RunForElection() })
				all = append(all, c)
			}
			e.until("1 leads, 2 and 3 know", func() bool { return log.is("1 won", "2 lost to 1", "3 lost to 1") })
			members[0].Cut()
			e.until("2 leads, 3 knows", func() bool {
				return log.is("1 won", "2 lost to 1", "3 lost to 1", "2 won", "3 lost to 2")
			})
			e.check(all[1].IsLeader() && !all[0].IsLeader() && !all[2].IsLeader(), "not 2 alone leads")
			e.until("2 is acknowledged", func() bool { return e.leader(members[2]).Value == "2" })
			e.check(!log.early.Load(), "a loser was told of a leader during its takeover")
			e.check(!log.twice.Load(), "a loser was told twice of one acknowledgement")
		},
	},
	{
		Name:     "failed-takeover-is-never-acknowledged",
		Promises: []string{"G5", "G3"},
		Explains: "a candidate that fails to take over is not acknowledged and gives the ballot back; the next in line leads",
		check: func(e *env) {
			a, b := e.open(), e.open()
			failing := e.candidate(a, "a", nil)
			failed := make(chan error, 8)
			done := make(chan struct{})
			goOn := sync.OnceFunc(func() { close(done) })
			e.onClose(goOn)
			failing.OnWon(func(context.Context, *leadership.Term) error { <-done; return errors.New("disk full") })
			failing.OnTakeoverFailed(func(err error) { failed <- err })
			e.standing(a, "a", func() { failing.RunForElection() })
			next := e.stand(b, "b", nil)
			f := e.follower(b)
			f.Start()
			e.during(e.h.TTL/50, "no leader is acknowledged during the takeover", func() bool {
				return e.leader(b) == store.Leader{}
			})
			goOn()
			receive(e, failed, "the takeover-failed callback")
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
			f := e.follower(a)
			var mu sync.Mutex
			gone := 0
			f.OnLeaderGone(func(context.Context) { mu.Lock(); defer mu.Unlock(); gone++ })
			f.OnNewLeader(func(_ context.Context, l leadership.Leader) { e.Errorf("told of %v", l) })
			values, _ := f.FollowElection()
			e.check(receive(e, values, "the first state") == leadership.Leader{}, "told of a leader")
			e.during(e.h.TTL/4, "it was told once", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return gone <= 1 && len(values) == 0
			})
			e.until("its callback was called", func() bool { mu.Lock(); defer mu.Unlock(); return gone == 1 })
			e.check(len(e.ballots(a)) == 0, "a follower made a ballot")
			f.Stop()
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
			f := e.follower(c) // late
			seen := make(chan leadership.Leader, 16)
			f.OnNewLeader(func(_ context.Context, l leadership.Leader) { seen <- l })
			f.OnLeaderGone(func(context.Context) { seen <- leadership.Leader{} })
			f.Start()
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
		Name:     "events-and-values-in-order",
		Promises: []string{"G5", "G4", "G3"},
		Explains: "the channels carry false, true, false as leadership comes and goes, and the leaders' values in order",
		check: func(e *env) {
			a, b, c := e.open(), e.open(), e.open()
			values, _ := e.follower(c).FollowElection()
			e.check(receive(e, values, "the first state") == leadership.Leader{}, "there is a leader")
			one, two := e.candidate(a, "l1", nil), e.candidate(b, "l2", nil)
			events, _ := one.RunForElection()
			e.check(!receive(e, events, "the first event"), "the first event is true")
			e.check(receive(e, events, "a's victory"), "false, and true was due")
			e.expect(values, "l1")
			e.standing(b, "l2", func() { two.RunForElection() })
			one.Resign()
			e.check(!receive(e, events, "a's resignation"), "true, and false was due")
			e.expect(values, "l2")
			e.until("a stands again", func() bool { return len(e.ballots(c)) == 2 })
			two.Resign()
			e.check(receive(e, events, "a's second victory"), "false, and true was due")
			e.expect(values, "l1")
			one.Stop()
			e.check(!receive(e, events, "the final false"), "true after Stop")
			if _, open := <-events; open {
				e.Fatalf("the channel is open after Stop")
			}
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
	deadline := term.Deadline() // zero if the term is over
	acknowledged := make(chan error, 1)
	go func() { acknowledged <- term.Acknowledge(e.ctx) }()
	e.until("the request has been carried out, or the term is over", func() bool {
		return e.leader(other).Value == "a" || term.Context().Err() != nil
	})
	own.Heal()
	err := receive(e, acknowledged, "the acknowledgement")
	if left := time.Until(deadline); term.Context().Err() != nil && !deadline.IsZero() {
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

// expect waits for a value. Before it, the empty value is allowed: a change of leader might show it.
func (e *env) expect(values <-chan leadership.Leader, want string) {
	e.TB.Helper()
	got := receive(e, values, want)
	if got.Revision == 0 {
		got = receive(e, values, want)
	}
	e.check(got.Value == want, "the value is %q, not %q", got.Value, want)
}

func receiveClosed(e *env, ch <-chan struct{}, what string) {
	e.TB.Helper()
	select {
	case <-ch:
	case <-e.ctx.Done():
		e.Fatalf("waited in vain for %s", what)
	}
}

// callLog records which callbacks were called.
type callLog struct {
	takeover time.Duration // how long each takes
	early    atomic.Bool   // a loser was told of a leader during its first takeover
	twice    atomic.Bool   // a loser was told twice of one acknowledgement

	mu    sync.Mutex
	calls []string // guarded by mu; each once: a leader repeats an acknowledgement whose outcome is unknown
}

func (l *callLog) add(call string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.calls, call) {
		l.calls = append(l.calls, call)
	}
}

func (l *callLog) register(c *leadership.Candidate, name string) {
	again := false // it has led before: on a busy machine a lease can end, and losers know the earlier term
	c.OnWon(func(ctx context.Context, _ *leadership.Term) error {
		select {
		case <-time.After(l.takeover):
		case <-ctx.Done():
		}
		if !again && l.told(name) {
			l.early.Store(true)
		}
		again = true
		l.add(name + " won")
		return nil
	})
	var last uint64 // revision
	c.OnNewLeader(func(_ context.Context, leader leadership.Leader) {
		if leader.Revision <= last {
			l.twice.Store(true)
		}
		last = leader.Revision
		l.add(name + " lost to " + leader.Value)
	})
}

// told reports whether a loser was told of the leader.
func (l *callLog) told(leader string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.calls, func(call string) bool { return strings.HasSuffix(call, " lost to "+leader) })
}

// is reports whether exactly these calls have been made, in any order.
func (l *callLog) is(calls ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Equal(slices.Sorted(slices.Values(l.calls)), slices.Sorted(slices.Values(calls)))
}
