package drivertest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
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
			remove := func() error { return a.Remove(e.ctx, removal) }
			e.finally("remove", remove)
			s, _ := e.leader(b).state()
			e.check(s.Leader.Revision == 0, "the acknowledgement of an entry that has gone is still there")
			revision = e.acknowledge(b, next, "next")
			e.finally("remove again", remove)
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
			s, proof := e.open(d)
			returned := time.Now()
			_ = s.End(e.ctx, nil)
			e.ended(s)
			if proof != (engine.Proof{}) { // otherwise Keep tells the first
				e.check(!proof.Sent.Time().After(returned) && !proof.Sent.Time().Before(called.Add(-e.h.TTL)), "sent at another time")
				e.check(proof.Valid > 0 && proof.Valid < e.h.TTL, "the first proof is valid for %v", proof.Valid)
			}
			a := e.process()
			proofs := e.proven(a)
			for _, p := range proofs {
				e.check(p.Valid < e.h.TTL, "a renewal is valid for %v", p.Valid)
			}
		},
	},
	{
		Name:      "proofs-come-after-their-answer",
		Invariant: "Proof.Sent is the time before the request was sent, however long the answer takes",
		check: func(e *env) {
			if e.h.OpenSlow == nil {
				e.skip("the harness has no OpenSlow")
			}
			delay := e.h.TTL / 20
			d := e.driverOf(e.h.OpenSlow(e.ctx, delay))
			a := e.processOn(d)
			opened := time.Now()
			proofs := e.proven(a)
			if a.proof != (engine.Proof{}) { // otherwise Keep tells the first
				proofs = slices.Insert(proofs, 0, proof{a.proof, opened})
			}
			for _, p := range proofs {
				took := p.at.Sub(p.Sent.Time())
				e.check(took >= delay, "sent %v before the answer, which took %v at least", took, delay)
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
		Name:      "session-stands-for-its-ttl",
		Invariant: "no session that is renewed no more ends before Proof.Sent and its TTL",
		check: func(e *env) {
			a, b := e.process(), e.driver()
			entry := e.enter(a)
			opened := store.Now()
			e.until("the session is renewed", func() bool { return a.renewedSince(opened) })
			a.stopRenewing()
			proofs := a.renewals()
			ends := proofs[len(proofs)-1].Sent.Time().Add(e.h.TTL)
			late := false
			for {
				n, _ := e.entry(b, entry.Key)
				s, _ := n.state()
				left := time.Until(ends)
				if left <= 0 {
					break
				}
				e.check(s.Token == entry.Token, "the entry has gone %v before the end of its session", left)
				late = late || left < e.h.TTL/4
				time.Sleep(e.h.TTL / 100)
			}
			if !late {
				e.skip("this machine was too slow to look in the last quarter of the TTL")
			}
		},
	},
	{
		Name: "end-takes-all-entries",
		Invariant: "the entries and acknowledgements of a session go when it ends, before End has returned nil, and nothing is " +
			"carried out in it any more",
		check: func(e *env) {
			d, b := e.driver(), e.driver()
			s, _ := e.open(d)
			entry := e.enter(s)
			e.acknowledge(s, entry, "value")
			if e.ends(s, entry) {
				e.ballots(b)
			}
			meter := stall.Start()
			defer meter.Stop()
			ended := time.Now()
			e.gone(b, entry.Key)
			took := time.Since(ended)
			e.check(took < e.h.TTL/2+meter.Stalled(), "the entry went %v after the end of its session; %v", took, meter)
			state, _ := e.leader(b).state()
			e.check(state.Leader == store.Leader{}, "%v leads", state.Leader)
			_, err := s.Acknowledge(e.ctx, entry, "value")
			e.check(err != nil, "an acknowledgement of a session that has ended")
		},
	},
	{
		Name: "next-session",
		Invariant: "the next session may be opened while the one before has not been ended, whose entries stand until then; " +
			"a driver that has one at a time says ErrUnavailable. End ends the one session alone",
		check: func(e *env) {
			d, b := e.driver(), e.driver()
			first, _ := e.open(d)
			ctx, giveUp := context.WithCancel(e.ctx)
			kept := make(chan struct{})
			go func() {
				defer close(kept)
				_ = first.Keep(ctx, func(engine.Proof) {})
			}()
			e.onClose(func() { giveUp(); <-kept }) // before the driver is closed
			old := e.enter(first)
			giveUp()
			<-kept
			second, _, err := d.Open(e.ctx)
			e.check(err == nil || errors.Is(err, store.ErrUnavailable), "open the next session: %v", err)
			e.ballots(b, old.Token)
			var next engine.Entry
			if err == nil {
				e.check(second.ID() != first.ID(), "the next session is the one before")
				next = e.enter(second)
				e.ballots(b, old.Token, next.Token)
			}
			e.ends(first, old)
			e.gone(b, old.Key)
			if second == nil {
				second, _ = e.open(d)
				e.check(second.ID() != first.ID(), "the next session is the one before")
				next = e.enter(second)
			}
			e.ballots(b, next.Token)
			e.acknowledge(second, next, "value")
			e.ends(second, next)
		},
	},
}

// proven returns the renewals of two TTL that prove something, and waits longer if there are fewer than three. After the
// process or the service stood still, a renewal might prove nothing.
func (e *env) proven(p *process) (proofs []proof) {
	e.Helper()
	time.Sleep(2 * e.h.TTL)
	e.until("three renewals prove that the session stands", func() bool {
		proofs = slices.DeleteFunc(p.renewals(), func(one proof) bool { return one.Valid <= 0 })
		return len(proofs) >= 3
	})
	return proofs
}

// ends ends the session of an entry that led, and reports whether that is confirmed. Otherwise it ends by itself.
func (e *env) ends(s engine.Session, entry engine.Entry) bool {
	err := s.End(e.ctx, []engine.Removal{removal(entry)})
	e.ended(s)
	if err != nil {
		e.Logf("the end of the session is not confirmed: %v", err)
	}
	return err == nil
}
