package conformance

import (
	"context"
	"errors"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
)

// resignation checks requests to resign.
var resignation = []Case{
	{
		Name:     "resignation-on-request",
		Promises: []string{"G1", "G3"},
		Explains: "a leader that is asked to resign stops its work first, and then gives its ballot back; no other one is asked",
		check: func(e *env) {
			a, b := e.open(), e.open()
			c := e.candidate(a, "a", nil)
			term := e.campaign(c)
			next := e.stand(b, "b", nil)
			if !e.request(b, term.Token()) {
				e.ok(term.Withdraw(e.ctx), "give the ballot back")
				return
			}
			receiveClosed(e, term.Context().Done(), "the end of the term's context")
			cause := context.Cause(term.Context())
			e.check(errors.Is(cause, leadership.ErrResigned), "the term ended with: %v", cause)
			e.check(!c.IsLeader(), "the old leader leads after its term's end")
			e.during(e.h.TTL/10, "the next candidate waits until the leader's work has stopped", func() bool {
				return !next.IsLeader()
			})
			e.ok(term.Withdraw(e.ctx), "give the ballot back")
			var led *leadership.Term
			e.until("the next candidate leads", func() bool {
				var leads bool
				led, leads = next.Term()
				return leads
			})
			e.check(e.request(b, term.Token()), "a second request was not taken")
			e.during(e.h.TTL/10, "the next leader, which was not asked, does not resign", func() bool {
				return !errors.Is(context.Cause(led.Context()), leadership.ErrResigned) // on a busy machine its lease can run out
			})
		},
	},
	{
		Name:     "resignation-on-request-while-waiting",
		Promises: []string{"G1", "G4"},
		Explains: "a request to resign ends the wait of a ballot's owner, does not move the ballot, and does not touch the others",
		check: func(e *env) {
			a, b := e.open(), e.open()
			first, waiting := e.cast(a, "a"), e.cast(b, "b")
			e.first(first)
			waited := make(chan error, 1)
			go func() { waited <- waiting.Wait(e.ctx) }()
			if !e.request(a, waiting.Token()) {
				return
			}
			receiveClosed(e, waiting.ResignationRequested(), "the request")
			err := receive(e, waited, "the end of the wait")
			e.check(errors.Is(err, store.ErrRequested), "the wait ended with: %v", err)
			e.check(len(e.ballots(a)) == 2, "a ballot has gone")
			e.check(first.Err() == nil && waiting.Err() == nil, "a ballot is lost: %v %v", first.Err(), waiting.Err())
			e.during(e.h.TTL/20, "the other one was not asked", func() bool {
				select {
				case <-first.ResignationRequested():
					return false
				default:
					return true
				}
			})
			e.withdraw(first)
			err = waiting.Wait(e.ctx)
			e.check(errors.Is(err, store.ErrRequested), "the wait of a ballot that is first, and was asked, ended with: %v", err)
			e.withdraw(waiting)
		},
	},
}

// request asks for the resignation of a ballot, and reports whether the store can do that. It says so if it can't.
func (e *env) request(m *member, token uint64) bool {
	e.TB.Helper()
	err := m.Store.RequestResignation(e.ctx, e.election, token)
	unsupported := errors.Is(err, errors.ErrUnsupported)
	switch {
	case unsupported && e.h.WithoutResignation:
		e.TB.Logf("NOT CHECKED: the store takes no requests to resign")
		return false
	case unsupported:
		e.Fatalf("the store takes no requests to resign: %v", err)
	case e.h.WithoutResignation:
		e.Fatalf("the store takes requests to resign: set Harness.WithoutResignation to false")
	}
	e.ok(err, "request the resignation of %d", token)
	return true
}
