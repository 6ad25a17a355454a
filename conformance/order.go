package conformance

import (
	"context"
	"fmt"

	"github.com/go-leadership/leadership/store"
)

// order checks G4.
var order = []Case{
	{
		Name:     "leads-in-the-order-of-ballots",
		Promises: []string{"G4"},
		Explains: "candidates become first in the order in which the store received their ballots",
		check: func(e *env) {
			members := []*member{e.open(), e.open(), e.open()}
			var ballots []store.Ballot
			for i := range 6 {
				ballots = append(ballots, e.cast(members[i%len(members)], fmt.Sprint(i)))
			}
			called := make(chan int, len(ballots))
			for i, b := range ballots {
				go func() {
					if b.Wait(e.ctx) == nil {
						called <- i
					}
				}()
			}
			for i, b := range ballots {
				got := receive(e, called, "the next in line")
				e.check(got == i, "ballot %d became first, not %d", got, i)
				e.withdraw(b)
			}
		},
	},
	{
		Name:     "who-leaves-goes-to-the-back",
		Promises: []string{"G4"},
		Explains: "a candidate that withdraws and stands again is behind all that stood meanwhile: one, two or three",
		check: func(e *env) {
			a, b, c := e.open(), e.open(), e.open()
			first, second, third := e.cast(a, "a"), e.cast(b, "b"), e.cast(c, "c")
			e.first(first)
			e.withdraw(first)
			first = e.cast(a, "a")
			e.first(second)
			e.withdraw(second)
			e.withdraw(third) // while it is first, whether it has been told or not
			e.first(first)
			third = e.cast(c, "c")
			e.withdraw(first)
			e.first(third)
		},
	},
	{
		Name:     "a-gap-promotes-none",
		Promises: []string{"G4", "G3"},
		Explains: "when one in the middle goes, by itself or by a crash, no other is called before its turn",
		check: func(e *env) {
			crashing, a, b := e.open(), e.open(), e.open()
			one, two, three := e.cast(a, "1"), e.cast(b, "2"), e.cast(crashing, "3")
			four, five := e.cast(a, "4"), e.cast(b, "5")
			called := make(chan string, 5)
			for name, ballot := range map[string]store.Ballot{"1": one, "2": two, "3": three, "4": four, "5": five} {
				go func() {
					if ballot.Wait(e.ctx) == nil {
						called <- name
					}
				}()
			}
			e.check(receive(e, called, "the first in line") == "1", "not the first was called")
			crashing.Cut()
			e.until("the one in the middle has expired", func() bool { return len(e.ballots(a)) == 4 })
			e.withdraw(four)
			e.during(e.h.TTL/4, "none is called", func() bool { return len(called) == 0 })
			e.withdraw(one)
			got := receive(e, called, "the second in line")
			e.check(got == "2", "%s was called, not 2", got)
			e.during(e.h.TTL/20, "2 alone is called", func() bool { return len(called) == 0 })
			e.withdraw(two)
			got = receive(e, called, "the last in line")
			e.check(got == "5", "%s was called, not 5", got)
		},
	},
	{
		Name:     "second-ballot-of-the-same-store",
		Promises: []string{"G4"},
		Explains: "two ballots cast through one store are two candidates: the second waits for the first and never both",
		check: func(e *env) {
			a := e.open()
			first, second := e.cast(a, "a"), e.cast(a, "a")
			e.first(first)
			_, err := second.Acknowledge(e.ctx, "a")
			e.check(err != nil, "the second ballot acknowledged before its turn")
			e.ends("Wait", func(ctx context.Context) error { return second.Wait(ctx) })
			e.withdraw(first)
			e.first(second)
		},
	},
}
