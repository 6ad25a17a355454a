package drivertest

import (
	"errors"
	"time"

	"github.com/go-leadership/leadership/internal/engine"
	"github.com/go-leadership/leadership/store"
)

// sessions checks sessions and their entries.
var sessions = []Case{
	{
		Name:      "tokens-grow",
		Invariant: "a later entry of an election has a higher token, and another key",
		check: func(e *env) {
			a, b := e.process(), e.process()
			token, keys := uint64(0), map[string]bool{}
			for i := range changes {
				p := []*process{a, b}[i%2]
				entry := e.enter(p)
				e.check(entry.Token > token, "token %d came after %d", entry.Token, token)
				e.check(!keys[entry.Key], "key %q came again", entry.Key)
				token, keys[entry.Key] = entry.Token, true
				if i%3 > 0 {
					e.remove(p, entry)
				}
			}
		},
	},
	{
		Name:      "enter-is-idempotent",
		Invariant: "Enter makes one entry for a nonce, however often it is called",
		check: func(e *env) {
			a := e.process()
			n := e.nonce()
			first, err := a.Enter(e.ctx, e.election, n, "value")
			e.ok(err, "enter")
			again, err := a.Enter(e.ctx, e.election, n, "value")
			e.ok(err, "enter again")
			e.check(again.Key == first.Key && again.Token == first.Token, "%+v and %+v have one nonce", first, again)
			list, err := a.Ballots(e.ctx, e.election)
			e.ok(err, "list the ballots")
			e.check(len(list) == 1 && list[0] == store.Standing{Value: "value", Token: first.Token}, "the ballots are %v", list)
		},
	},
	{
		Name:      "void-is-final",
		Invariant: "once Void has returned nil no entry of that nonce stands, or ever will; entries of others do",
		check: func(e *env) {
			a := e.process()
			for _, entered := range []bool{true, false} {
				n, other := e.nonce(), e.nonce()
				other.Slot = 1
				standing, err := a.Enter(e.ctx, e.election, other, "other")
				e.ok(err, "enter")
				if entered {
					_, err := a.Enter(e.ctx, e.election, n, "value")
					e.ok(err, "enter")
				}
				e.ok(a.Void(e.ctx, e.election, n), "void")
				_, err = a.Enter(e.ctx, e.election, n, "value")
				e.check(err != nil, "a nonce that is void made an entry")
				e.ok(a.Void(e.ctx, e.election, n), "void again") // Enter may have made one that it says is of no use
				list, err := a.Ballots(e.ctx, e.election)
				e.ok(err, "list the ballots")
				e.check(len(list) == 1 && list[0].Token == standing.Token, "the ballots are %v", list)
				standing.Election = e.election
				e.remove(a, standing)
			}
		},
	},
	{
		Name:      "acknowledge-needs-the-entry",
		Invariant: "Acknowledge is carried out only while the entry stands",
		check: func(e *env) {
			a := e.process()
			entry := e.enter(a)
			first := e.acknowledge(a, entry, "one")
			second := e.acknowledge(a, entry, "two")
			e.check(second > first, "revision %d came after %d", second, first)
			e.remove(a, entry)
			_, err := a.Acknowledge(e.ctx, entry, "three")
			e.check(errors.Is(err, engine.ErrGone), "an entry that has gone was acknowledged: %v", err)
			s, _ := e.leader(a).state()
			e.check(s.Leader == store.Leader{}, "%v leads", s.Leader)
		},
	},
	{
		Name:      "remove-touches-no-others",
		Invariant: "Remove removes the entry and its acknowledgement in one step, and nothing of others, however often it is called",
		check: func(e *env) {
			a, b := e.process(), e.process()
			old := e.enter(a)
			revision := e.acknowledge(a, old, "old")
			next := e.enter(b)
			removal := engine.Removal{Entry: old, Led: true, Acknowledged: true, Revision: revision, Alone: func() bool { return true }}
			e.ok(a.Remove(e.ctx, removal), "remove")
			s, _ := e.leader(b).state()
			e.check(s.Leader.Revision == 0, "the acknowledgement of an entry that has gone is still there")
			revision = e.acknowledge(b, next, "next")
			e.ok(a.Remove(e.ctx, removal), "remove again")
			s, _ = e.leader(b).state()
			e.check(s.Leader.Revision == revision, "a removal took the acknowledgement of another entry")
			n, _ := e.entry(b, next.Key)
			s, _ = n.state()
			e.check(s.Token == next.Token, "a removal took another entry")
		},
	},
	{
		Name:      "proofs-count-from-the-request",
		Invariant: "Proof.Valid counts from Proof.Sent, which is before the request was sent, and is shorter than the TTL",
		check: func(e *env) {
			d := e.driver()
			called := time.Now()
			s, proof, err := d.Open(e.ctx)
			returned := time.Now()
			e.ok(err, "open a session")
			_ = s.End(e.ctx, nil)
			e.check(!proof.Sent.Time().After(returned) && !proof.Sent.Time().Before(called.Add(-e.h.TTL)), "sent at another time")
			e.check(proof.Valid > 0 && proof.Valid < e.h.TTL, "the first proof is valid for %v", proof.Valid)
			a := e.process()
			time.Sleep(2 * e.h.TTL)
			a.mu.Lock()
			proofs := append([]engine.Proof{}, a.proofs...)
			a.mu.Unlock()
			e.check(len(proofs) >= 3, "%d renewals in two TTL", len(proofs))
			for _, p := range proofs {
				e.check(p.Valid > 0 && p.Valid < e.h.TTL, "a renewal is valid for %v", p.Valid)
			}
		},
	},
	{
		Name:      "session-lasts",
		Invariant: "no session ends before Proof.Sent and its TTL, and none that is renewed ends",
		check: func(e *env) {
			a, b := e.process(), e.driver()
			entry := e.enter(a)
			for range 10 {
				time.Sleep(e.h.TTL / 3)
				select {
				case <-a.over:
					e.check(false, "a session that is renewed has ended")
				default:
				}
				n, _ := e.entry(b, entry.Key)
				s, _ := n.state()
				e.check(s.Token == entry.Token, "an entry of a session that is renewed has gone")
			}
		},
	},
	{
		Name:      "end-takes-all-entries",
		Invariant: "the entries and acknowledgements of a session go when it ends, and it says ErrOver or ErrGone from then on",
		check: func(e *env) {
			d, b := e.driver(), e.driver()
			s, _, err := d.Open(e.ctx)
			e.ok(err, "open a session")
			if !s.Ends() {
				return // its entries are removed one by one
			}
			entry, err := s.Enter(e.ctx, e.election, e.nonce(), "value")
			e.ok(err, "enter")
			entry.Election = e.election
			_, err = s.Acknowledge(e.ctx, entry, "value")
			e.ok(err, "acknowledge")
			e.ok(s.End(e.ctx, []engine.Removal{{Entry: entry, Led: true, Acknowledged: true, Alone: func() bool { return true }}}), "end")
			ended := time.Now()
			e.gone(b, entry.Key)
			e.check(time.Since(ended) < e.h.TTL/2, "the entry went %v after the end of its session", time.Since(ended))
			state, _ := e.leader(b).state()
			e.check(state.Leader == store.Leader{}, "%v leads", state.Leader)
			_, err = s.Acknowledge(e.ctx, entry, "value")
			e.check(errors.Is(err, engine.ErrGone) || errors.Is(err, engine.ErrOver), "an acknowledgement of a session that has ended: %v", err)
		},
	},
	{
		Name:      "mark-is-told",
		Invariant: "a request to resign marks one entry, which its watch tells, and changes nothing else of it",
		check: func(e *env) {
			a, b := e.process(), e.driver()
			r, ok := b.(engine.Resigner)
			e.check(ok, "the driver is no engine.Resigner")
			entry, other := e.enter(a), e.enter(a)
			n, _ := e.entry(b, entry.Key)
			e.ok(r.RequestResignation(e.ctx, e.election, entry.Token), "request")
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
			list, err := b.Ballots(e.ctx, e.election)
			e.ok(err, "list the ballots")
			e.check(len(list) == 2 && list[0] == store.Standing{Value: "value", Token: entry.Token}, "the ballots are %v", list)
			e.remove(a, entry)
			e.ok(r.RequestResignation(e.ctx, e.election, entry.Token), "request the resignation of an entry that has gone")
		},
	},
}
