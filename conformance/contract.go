package conformance

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
)

// contract checks what package store says of Store and Ballot beyond the promises.
var contract = []Case{
	{
		Name:     "refuses-bad-names-and-values",
		Explains: "a name or value that not every store takes is refused with ErrInvalid before anything is sent",
		check: func(e *env) {
			a := e.open()
			names := []string{
				"", "/", "a/", "/a", "a//b", ".", "..", "a/../b", "a__b", "_ballots", "a/_ballots",
				"new\nline", "nul\x00", "\xff", "\U0001F600", strings.Repeat("x", store.MaxElection+1),
			}
			for _, name := range names {
				_, err := a.Cast(e.ctx, name, "a")
				e.check(errors.Is(err, store.ErrInvalid), "cast in %q: %v", name, err)
				_, err = a.Observe(e.ctx, name, nil)
				e.check(errors.Is(err, store.ErrInvalid), "observe %q: %v", name, err)
				_, err = a.Ballots(e.ctx, name)
				e.check(errors.Is(err, store.ErrInvalid), "ballots in %q: %v", name, err)
				_, err = leadership.NewCandidate(a, name, "a", nil)
				e.check(errors.Is(err, store.ErrInvalid), "a candidate for %q: %v", name, err)
			}
			huge := strings.Repeat("x", store.MaxValue+1)
			_, err := a.Cast(e.ctx, e.election, huge)
			e.check(errors.Is(err, store.ErrInvalid), "a value of %d bytes: %v", len(huge), err)
			ballot := e.cast(a, "a")
			e.first(ballot)
			_, err = ballot.Acknowledge(e.ctx, huge)
			e.check(errors.Is(err, store.ErrInvalid), "an acknowledgement of %d bytes: %v", len(huge), err)
			e.check(len(e.ballots(a)) == 1, "a refused ballot stands")
		},
	},
	{
		Name:     "elections-never-meet",
		Explains: "elections run side by side without meeting, whatever their names have in common",
		check: func(e *env) {
			a := e.open()
			suffixes := []string{"/a", "/a/b", "/a_/b", "/a_b", "/a b", "/ä/日本語", "/leader_ack", "/ballot", "/a/ballot0000000001"}
			var records []store.Leader
			for _, suffix := range suffixes {
				name := e.election + suffix
				e.onClose(func() { e.ok(e.h.Clear(e.ctx, name), "clear %q", name) })
				ballot, err := tryCast(e.ctx, a, name, suffix)
				e.ok(err, "cast in %q", name)
				e.first(ballot)
				e.onClose(func() { e.withdraw(ballot) })
				records = append(records, e.acknowledge(ballot, suffix))
			}
			for i, suffix := range suffixes {
				known, err := a.Observe(e.ctx, e.election+suffix, nil)
				e.ok(err, "read the leader")
				e.check(known.Leader == records[i], "the leader of %q is %v, not %v", suffix, known.Leader, records[i])
				list, err := a.Ballots(e.ctx, e.election+suffix)
				e.ok(err, "list the ballots")
				e.check(len(list) == 1, "%d ballots in %q, not 1", len(list), suffix)
			}
		},
	},
	{
		Name:     "elections-are-listed",
		Explains: "a store that lists elections lists each in which a ballot stands, once, in order, and nothing but names of elections",
		check: func(e *env) {
			a, b := e.open(), e.open()
			names := []string{e.election, e.election + "/a", e.election + "/a b", e.election + "/a/b", e.election + "/deep/er"}
			for i, name := range names {
				e.onClose(func() { e.ok(e.h.Clear(e.ctx, name), "clear %q", name) })
				for range 2 {
					ballot, err := tryCast(e.ctx, b, name, strings.Repeat("x", i*1000))
					e.ok(err, "cast in %q", name)
					e.onClose(func() { e.withdraw(ballot) })
				}
			}
			_, err := b.Observe(e.ctx, e.election+"/unknown", nil)
			e.ok(err, "observe an election that has never been")
			all, err := a.Elections(e.ctx)
			if errors.Is(err, errors.ErrUnsupported) {
				e.Logf("NOT CHECKED: the store can't list its elections: %v", err)
				return
			}
			e.ok(err, "list the elections")
			e.check(slices.IsSorted(all) && len(slices.Compact(slices.Clone(all))) == len(all), "not in order, or twice: %q", all)
			var own []string
			for _, name := range all {
				e.check(store.CheckElection(name) == nil, "%q is no name of an election", name)
				if strings.HasPrefix(name, e.election) {
					own = append(own, name)
				}
			}
			e.check(slices.Equal(own, names), "the elections are %q, not %q", own, names)
		},
	},
	{
		Name:     "calls-end-with-their-context",
		Explains: "every call that takes a context returns soon after it ends, whatever the line does",
		check: func(e *env) {
			a, b := e.open(), e.open()
			leader, waiter := e.cast(b, "b"), e.cast(a, "a")
			e.first(leader)
			prev := e.leader(a)
			e.ends("Wait", func(ctx context.Context) error { return waiter.Wait(ctx) })
			e.ends("Observe", func(ctx context.Context) error { _, err := e.next(ctx, a, prev); return err })
			b.Cut()
			prev = store.Leader{}
			e.ends("Cast", func(ctx context.Context) error { _, err := b.Cast(ctx, e.election, "b"); return err })
			e.ends("Acknowledge", func(ctx context.Context) error { _, err := leader.Acknowledge(ctx, "b"); return err })
			e.ends("Observe", func(ctx context.Context) error { _, err := e.next(ctx, b, prev); return err })
			e.ends("Ballots", func(ctx context.Context) error { _, err := b.Ballots(ctx, e.election); return err })
			e.ends("Withdraw", func(ctx context.Context) error { return leader.Withdraw(ctx) })
		},
	},
	{
		Name:     "stop-and-resign-at-any-time",
		Explains: "Stop and Resign can be called twice, before any other call, while idle, and after each other",
		check: func(e *env) {
			a := e.open()
			c := e.candidate(a, "a", nil)
			c.Resign() // before any other call
			e.run(c, leadership.Lead)
			e.until("a leads", c.IsLeader)
			c.Resign()
			c.Resign()
			c.Stop()
			c.Stop()
			c.Resign()
			e.done(c)
			_, err := c.Campaign(e.ctx)
			e.check(errors.Is(err, leadership.ErrStopped), "campaigning after Stop: %v", err)
			never := e.candidate(a, "b", nil)
			never.Stop()
			e.done(never)
			f := e.follower(a)
			f.Stop()
			f.Stop()
			e.done(f)
		},
	},
	{
		Name:     "step-by-step",
		Explains: "a ballot is cast, waits, is first, acknowledges, is withdrawn, and says at each step what it is",
		check: func(e *env) {
			a := e.open()
			e.check(a.TTL() == e.h.TTL, "the TTL is %v, not %v", a.TTL(), e.h.TTL)
			ballot := e.cast(a, "a")
			e.check(ballot.Token() != 0, "the token is 0")
			e.check(ballot.Err() == nil, "a standing ballot has the error %v", ballot.Err())
			e.first(ballot)
			e.first(ballot) // it stays first
			e.until("the lease holds", func() bool {
				e.ok(ballot.Err(), "wait until the lease holds")
				_, ok := ballot.Lease().Span()
				return ok
			})
			e.check(a.Worked(), "a store that has cast a ballot says that it has never worked")
			one := e.acknowledge(ballot, "a")
			two := e.acknowledge(ballot, "a")
			e.check(two.Revision > one.Revision, "revision %d after %d", two.Revision, one.Revision)
			e.withdraw(ballot)
			e.withdraw(ballot)
			receiveClosed(e, ballot.Lost(), "the end of the ballot")
			e.check(errors.Is(ballot.Err(), store.ErrLost), "a withdrawn ballot has the error %v", ballot.Err())
			e.check(errors.Is(ballot.Wait(e.ctx), store.ErrLost), "waiting with a withdrawn ballot: %v", ballot.Wait(e.ctx))
		},
	},
}

// ends lets a call hang, ends its context and waits for it.
func (e *env) ends(what string, call func(ctx context.Context) error) {
	e.TB.Helper()
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- call(ctx) }()
	e.during(e.h.TTL/50, what+" hangs", func() bool { return len(ended) == 0 })
	cancel()
	err := receive(e, ended, "the end of "+what)
	e.check(err != nil, "%s succeeded on a cut line", what)
}
