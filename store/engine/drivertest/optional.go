package drivertest

import (
	"errors"
	"slices"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// optional checks what a driver may do besides. A case is skipped if the driver does not do it.
var optional = []Case{
	{
		Name:      "mark-is-told",
		Invariant: "a request to resign marks one entry, which its watch tells, and changes nothing else of it",
		check: func(e *env) {
			a, b := e.process(), e.driver()
			entry, other := e.enter(a), e.enter(a)
			n, _ := e.entry(b, entry.Key)
			request := func() error { return b.RequestResignation(e.ctx, e.election, entry.Token) }
			if errors.Is(request(), errors.ErrUnsupported) {
				e.skip("the driver can mark no entry")
			}
			e.finally("request", request)
			e.until("the mark is told", func() bool {
				if n.stale() {
					n, _ = e.entry(b, entry.Key)
				}
				s, _ := n.state()
				return s.Resign
			})
			s, _ := n.state()
			e.check(s.Token == entry.Token && s.Session == a.ID(), "the entry is %+v now", s)
			n, _ = e.entry(b, other.Key)
			s, _ = n.state()
			e.check(!s.Resign, "another entry is marked")
			list := e.list(b)
			for i := range list {
				e.check(list[i].Silence < e.h.TTL, "a session that is renewed is silent for %v", list[i].Silence)
				list[i].Silence = 0
			}
			e.check(len(list) == 2 && list[0] == store.Standing{Value: "value", Token: entry.Token, Asked: true} && !list[1].Asked,
				"the ballots are %+v", list)
			e.remove(a, entry)
			e.finally("request the resignation of an entry that has gone", request)
		},
	},
	{
		Name:      "elections-are-listed",
		Invariant: "Elections lists each election that has entries, even one below another",
		check: func(e *env) {
			a, b := e.process(), e.driver()
			var names []string
			list := func() (err error) {
				names, err = b.Elections(e.ctx)
				return err
			}
			if errors.Is(list(), errors.ErrUnsupported) {
				e.skip("the driver can't list elections")
			}
			e.enter(a)
			below := e.election + "/below"
			e.enterIn(a, below, e.nonce())
			e.finally("list the elections", list)
			e.check(slices.Contains(names, e.election) && slices.Contains(names, below), "the elections are %q", names)
		},
	},
	{
		Name: "marks-of-sessions",
		Invariant: "a session has another mark after each renewal, and never an old one again; Expire ends it only while it has " +
			"the mark, with all its entries, and Peer says ErrOver from then on; what Prove notes is shown with the same mark alone, the longest",
		check: func(e *env) {
			a, b, c := e.process(), e.driver(), e.driver()
			peers, ok := c.(engine.Peers)
			if !ok {
				e.skip("the driver is no engine.Peers")
			}
			peer := func(s engine.Session) string {
				p, err := peers.Peer(e.ctx, s.ID())
				e.ok(err, "ask for a session")
				e.check(p.TTL == e.h.TTL && p.Age >= 0 && p.Age < e.h.TTL, "a session that is renewed is %+v", p)
				return p.Mark
			}
			entry := e.enter(a)
			marks := map[string]bool{}
			for range 3 {
				old := peer(a.Session)
				e.check(!marks[old], "the mark %q came again", old)
				marks[old] = true
				seen := store.Now()
				e.until("the session is renewed", func() bool { return a.renewedSince(seen) })
				e.check(peer(a.Session) != old, "the mark %q is that of two renewals", old)
				e.ok(peers.Prove(e.ctx, a.ID(), old, e.h.TTL/2), "prove the age of an old mark")
				now, err := peers.Peer(e.ctx, a.ID())
				e.check(err == nil && now.Age < e.h.TTL/2, "the age of an old mark counts: %+v, %v", now, err)
				err = peers.Expire(e.ctx, a.ID(), old)
				e.check(errors.Is(err, store.ErrUnavailable), "a session that has another mark was expired: %v", err)
				e.ballots(c, entry.Token)
			}
			e.remove(a, entry)
			left, _ := e.open(b) // and not renewed
			entry = e.enter(left)
			mark := peer(left)
			for _, p := range []struct {
				mark     string
				age, sum time.Duration
			}{{"another", e.h.TTL / 2, 0}, {mark, e.h.TTL / 2, e.h.TTL / 2}, {mark, e.h.TTL / 4, e.h.TTL / 2}} {
				e.ok(peers.Prove(e.ctx, left.ID(), p.mark, p.age), "prove the age of a mark")
				now, err := peers.Peer(e.ctx, left.ID())
				e.ok(err, "ask for a session")
				e.check(now.Age >= p.sum && now.Age < p.sum+e.h.TTL/4, "the mark is proved to be %v old, and not %v", now.Age, p.sum)
			}
			e.ok(peers.Expire(e.ctx, left.ID(), mark), "expire a session")
			e.ended(left)
			e.gone(c, entry.Key)
			e.ballots(c)
			_, err := peers.Peer(e.ctx, left.ID())
			e.check(errors.Is(err, engine.ErrOver), "a session that has ended: %v", err)
			_, err = left.Enter(e.ctx, e.election, e.nonce(), "value")
			e.check(err != nil, "an entry was made in a session that has ended")
		},
	},
}
