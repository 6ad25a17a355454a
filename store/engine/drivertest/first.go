package drivertest

import "github.com/go-leadership/leadership/store/engine"

// first checks what Driver.First returns.
var first = []Case{
	{
		Name: "first-is-the-head",
		Invariant: "First returns the state of the entry that is first in the queue of an election now, with its session and " +
			"nonce; the zero State if there is none",
		check: func(e *env) {
			a, b := e.process(), e.process()
			head := func(when string, entry engine.Entry, session, nonce string) {
				e.Helper()
				var s engine.State
				e.finally("read the first", func() (err error) {
					s, err = b.First(e.ctx, e.election)
					return err
				})
				e.check(s.Token == entry.Token && s.Nonce == nonce && (entry.Token == 0 || s.Session == session),
					"%s, the first is %+v, and not the entry with the token %d", when, s, entry.Token)
			}
			for range changes {
				head("in an empty election", engine.Entry{}, "", "")
				one, two := e.nonce(), e.nonce()
				ahead := e.enterAs(a, one)
				behind := e.enterAs(b, two)
				head("when two have been entered", ahead, a.ID(), one.Name)
				e.acknowledge(a, ahead, "value")
				head("when it leads", ahead, a.ID(), one.Name)
				e.remove(a, ahead)
				head("when that has gone", behind, b.ID(), two.Name)
				e.remove(b, behind)
			}
		},
	},
}
