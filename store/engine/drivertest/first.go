package drivertest

import (
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// first checks what Driver.First returns, and what Clear leaves.
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
	{
		Name: "clear-takes-one-election",
		Invariant: "Clear removes all entries and the acknowledgement of one election, and nothing of one below it; later tokens " +
			"are higher",
		check: func(e *env) {
			a, b := e.process(), e.driver()
			other := e.enterIn(a, e.election+"/below", e.nonce())
			for range 3 {
				first, second := e.enter(a), e.enter(a)
				e.acknowledge(a, first, "value")
				e.finally("clear", func() error { return b.Clear(e.ctx, e.election) })
				e.ballots(b)
				e.gone(b, first.Key)
				e.gone(b, second.Key)
				state, _ := e.leader(b).state()
				e.check(state.Leader == store.Leader{}, "%v leads", state.Leader)
				next := e.enter(a)
				e.check(next.Token > second.Token, "token %d comes after %d", next.Token, second.Token)
				e.check(next.Place.Nearest == "", "ahead of the next is %+v", next.Place)
				e.remove(a, next)
				left := e.listOf(b, other.Election)
				e.check(len(left) == 1 && left[0].Token == other.Token, "in the election below stand %v", left)
			}
		},
	},
}
