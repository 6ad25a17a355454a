package drivertest

import (
	"errors"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// optional checks what a driver may do besides. A case says so if the driver does not do it.
var optional = []Case{
	{
		Name:      "mark-is-told",
		Invariant: "a request to resign marks one entry, which its watch tells, and changes nothing else of it",
		check: func(e *env) {
			a, b := e.process(), e.driver()
			r, ok := b.(engine.Resigner)
			if !ok {
				e.Logf("the driver is no engine.Resigner")
				return
			}
			entry, other := e.enter(a), e.enter(a)
			n, _ := e.entry(b, entry.Key)
			request := func() error { return r.RequestResignation(e.ctx, e.election, entry.Token) }
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
			e.check(len(list) == 2 && list[0] == store.Standing{Value: "value", Token: entry.Token, Asked: true} && !list[1].Asked,
				"the ballots are %+v", list)
			e.remove(a, entry)
			e.finally("request the resignation of an entry that has gone", request)
		},
	},
	{
		Name:      "pair-is-two-entries",
		Invariant: "Pair does what Entry does for both entries: it tells what a read has found, and then every change of either",
		check: func(e *env) {
			a, b, c := e.process(), e.process(), e.driver()
			pairs, ok := c.(engine.PairWatcher)
			if !ok {
				e.Logf("the driver is no engine.PairWatcher")
				return
			}
			first, second := e.enter(a), e.enter(b)
			watch := func() (own, nearest *news) {
				var ownWatch, nearestWatch engine.Watch
				e.finally("watch two entries", func() (err error) {
					own, nearest = &news{}, &news{}
					ownWatch, nearestWatch, err = pairs.Pair(e.ctx, second.Key, first.Key, own.tell, nearest.tell)
					return err
				})
				e.onClose(ownWatch.Stop)
				e.onClose(nearestWatch.Stop)
				return own, nearest
			}
			own, nearest := watch()
			s, _ := own.state()
			e.check(s.Token == second.Token && s.Session == b.ID(), "the own entry was read as %+v", s)
			s, _ = nearest.state()
			e.check(s.Token == first.Token && s.Session == a.ID(), "the nearest was read as %+v", s)
			gone := func(who **news) func() bool {
				return func() bool {
					if (*who).stale() {
						own, nearest = watch()
					}
					s, told := (*who).state()
					return told && s.Token == 0
				}
			}
			e.remove(a, first)
			e.until("the end of the nearest is told", gone(&nearest))
			e.check(!gone(&own)(), "the own entry is told to have gone")
			own, nearest = watch()
			e.check(gone(&nearest)(), "an entry that has gone was read")
			e.remove(b, second)
			e.until("the end of the own entry is told", gone(&own))
		},
	},
	{
		Name: "restored-is-found",
		Invariant: "a Finder finds an entry of its session that was removed, and that a restore of the service has brought back; Void " +
			"of a stray removes it with its acknowledgement, and nothing of others",
		check: func(e *env) {
			a, b := e.process(), e.process()
			if _, ok := a.Driver.(engine.Finder); !ok {
				e.Logf("the driver is no engine.Finder")
				return
			}
			if e.h.Restore == nil {
				e.Logf("the harness has no Restore")
				return
			}
			n := e.nonce()
			entry := e.enterAs(a, n)
			e.acknowledge(a, entry, "value")
			stands := e.enter(b)
			e.entry(a, stands.Key) // the engine has some watch, too
			e.ok(e.h.Restore(e.ctx, func() { e.remove(a, entry) }), "restore the service")
			e.until("the entry is found", func() bool {
				_ = a.Confirm(e.ctx) // the engine does all the time
				e.mu.Lock()
				defer e.mu.Unlock()
				return e.found[found{a.ID(), e.election, n.Name}]
			})
			stray := e.nonce()
			stray.Name, stray.Stray = n.Name, true
			e.finally("void", func() error { return a.Void(e.ctx, e.election, stray) })
			e.ballots(a, stands.Token)
			s, _ := e.leader(a).state()
			e.check(s.Leader == store.Leader{}, "%v leads", s.Leader)
		},
	},
	{
		Name: "marks-of-sessions",
		Invariant: "a session has another mark after each renewal, and never an old one again; Expire ends it only while it has " +
			"the mark, with all its entries, and Peer says ErrOver from then on",
		check: func(e *env) {
			a, b, c := e.process(), e.driver(), e.driver()
			peers, ok := c.(engine.Peers)
			if !ok {
				e.Logf("the driver is no engine.Peers")
				return
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
				err := peers.Expire(e.ctx, a.ID(), old)
				e.check(errors.Is(err, store.ErrUnavailable), "a session that has another mark was expired: %v", err)
				e.ballots(c, entry.Token)
			}
			e.remove(a, entry)
			left, _ := e.open(b) // and not renewed
			entry = e.enter(left)
			e.ok(peers.Expire(e.ctx, left.ID(), peer(left)), "expire a session")
			e.gone(c, entry.Key)
			e.ballots(c)
			_, err := peers.Peer(e.ctx, left.ID())
			e.check(errors.Is(err, engine.ErrOver), "a session that has ended: %v", err)
			_, err = left.Enter(e.ctx, e.election, e.nonce(), "value")
			e.check(err != nil, "an entry was made in a session that has ended")
		},
	},
}
