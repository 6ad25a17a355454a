package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/go-leadership/leadership/store/engine"
)

// requests checks requests to enter whose contexts end while they are on their way.
var requests = []Case{
	{
		Name:      "enter-is-idempotent",
		Invariant: "Enter makes one entry for a nonce, however often it is called until it has told the outcome",
		check: func(e *env) {
			a := e.process()
			takes := e.timed(a)
			for i := range changes {
				n := e.nonce()
				var entry engine.Entry
				enter := func(ctx context.Context) (err error) {
					entry, err = a.Enter(ctx, e.election, n, "value")
					return err
				}
				err := e.briefly(2*float64(i)/changes, takes, enter)
				e.check(err == nil || uncertain(err), "a request whose context had ended: %v", err)
				if err != nil {
					e.finally("enter", func() error { return enter(e.ctx) })
				}
				e.ballots(a, entry.Token)
				entry.Election = e.election
				e.remove(a, entry)
				if err != nil { // the first request may still be on its way
					e.finally("void", func() error { return a.Void(e.ctx, e.election, n) })
				}
			}
		},
	},
	{
		Name: "void-is-final",
		Invariant: "once Void has returned nil no entry of that nonce stands, or ever will, though a request to enter it is on its " +
			"way; entries of others do",
		check: func(e *env) {
			a := e.process()
			takes := e.timed(a)
			other := e.nonce()
			other.Slot = 1
			standing := e.enterAs(a, other)
			for i := range changes {
				n := e.nonce()
				err := e.briefly(2*float64(i)/changes, takes, func(ctx context.Context) error {
					_, err := a.Enter(ctx, e.election, n, "value")
					return err
				})
				e.check(err == nil || uncertain(err) || errors.Is(err, engine.ErrGone), "a request whose context had ended: %v", err)
				e.finally("void", func() error { return a.Void(e.ctx, e.election, n) })
				e.ballots(a, standing.Token)
				e.finally("void again", func() error { return a.Void(e.ctx, e.election, n) })
			}
			time.Sleep(e.h.TTL / 10)
			e.ballots(a, standing.Token)
		},
	},
}

// timed returns how long a request to enter takes. The first one of an election may take longer.
func (e *env) timed(p *process) time.Duration {
	e.Helper()
	e.remove(p, e.enter(p))
	began := time.Now()
	entry := e.enter(p)
	takes := time.Since(began)
	e.remove(p, entry)
	return takes
}
