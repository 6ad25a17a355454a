package conformance

// fencing checks G2.
var fencing = []Case{
	{
		Name:     "tokens-grow-over-resignations",
		Promises: []string{"G2"},
		Explains: "every ballot's fencing token is higher than that of all who led the election before it",
		check: func(e *env) {
			a, b := e.open(), e.open()
			var last uint64
			for _, m := range []*member{a, b, b, a, a} {
				ballot := e.cast(m, "value")
				e.first(ballot)
				e.check(ballot.Token() > last, "token %d after %d", ballot.Token(), last)
				last = ballot.Token()
				e.withdraw(ballot)
			}
		},
	},
	{
		Name:     "tokens-grow-over-crashes",
		Promises: []string{"G2", "G3"},
		Explains: "a crashed leader's successor has a higher fencing token",
		check: func(e *env) {
			a, b := e.open(), e.open()
			crashed := e.cast(a, "a")
			e.first(crashed)
			a.Cut()
			next := e.cast(b, "b")
			e.first(next)
			e.check(next.Token() > crashed.Token(), "token %d after %d", next.Token(), crashed.Token())
		},
	},
	{
		Name:     "tokens-grow-over-removal",
		Promises: []string{"G2"},
		Explains: "tokens go on growing when all keys of the election have been removed and are made again",
		check: func(e *env) {
			a := e.open()
			var last uint64
			for range 3 {
				ballot := e.cast(a, "a")
				e.first(ballot)
				e.check(ballot.Token() > last, "token %d after %d", ballot.Token(), last)
				last = ballot.Token()
				e.acknowledge(ballot, "a")
				e.ok(e.h.Clear(e.ctx, e.election), "remove the election's keys")
			}
		},
	},
	{
		Name:     "tokens-are-listed",
		Promises: []string{"G2"},
		Explains: "the service lists each ballot under the fencing token that its holder was given",
		check: func(e *env) {
			a, b := e.open(), e.open()
			first, second := e.cast(a, "a"), e.cast(b, "b")
			list := e.ballots(a)
			e.check(len(list) == 2, "%d ballots are listed, not 2", len(list))
			e.check(list[0].Token == first.Token() && list[1].Token == second.Token(),
				"listed tokens %d, %d; given %d, %d", list[0].Token, list[1].Token, first.Token(), second.Token())
			e.check(list[0].Value == "a" && list[1].Value == "b", "listed values %q, %q", list[0].Value, list[1].Value)
		},
	},
}
