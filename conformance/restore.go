package conformance

import (
	"slices"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
)

// restored checks what follows if an operator restores what the service kept.
var restored = []Case{
	{
		Name:     "leads-after-a-restore",
		Promises: []string{"G3"},
		Explains: "withdrawn ballots that an operator has put back, with their acknowledgement, block no candidate for good, and followers learn of the next leader",
		check: func(e *env) {
			if e.h.Restore == nil {
				e.Logf("NOT CHECKED: the harness can't restore what the service has kept")
				return
			}
			a, b := e.open(), e.open()
			old := []store.Ballot{e.cast(a, "old"), e.cast(b, "old")}
			e.first(old[0])
			e.acknowledge(old[0], "old")
			restore, err := e.h.Restore(e.ctx, e.election)
			e.ok(err, "keep a copy")
			for _, ballot := range old {
				e.withdraw(ballot)
			}
			e.ok(restore(), "restore the copy")
			var candidates []*leadership.Candidate
			for _, m := range []*member{a, b} {
				c := e.candidate(m, "new", nil)
				e.run(c, leadership.Lead)
				candidates = append(candidates, c)
			}
			e.until("a candidate leads", func() bool { return slices.ContainsFunc(candidates, (*leadership.Candidate).IsLeader) })
			for _, m := range []*member{a, b, e.open()} {
				e.until("its value is known", func() bool { return e.leader(m).Value == "new" })
			}
		},
	},
}
