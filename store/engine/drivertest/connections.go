package drivertest

import "github.com/go-leadership/leadership/store"

// connections checks what a driver does when its connection has broken. Without Break in the harness the cases are skipped.
var connections = []Case{
	{
		Name: "broken-connection-is-told",
		Invariant: "when a connection is lost, its watches tell every change that happened meanwhile, or that they are over, " +
			"or that they have to be read again",
		check: func(e *env) {
			if e.h.Break == nil {
				e.skip("the harness has no Break")
			}
			a, b := e.process(), e.driver()
			for range changes {
				entry := e.enter(a)
				leader, _ := e.leader(b), 0
				n, _ := e.entry(b, entry.Key)
				e.h.Break(b)
				revision := e.acknowledge(a, entry, "value")
				e.until("the acknowledgement is told, or the end of the watch", func() bool {
					s, _ := leader.state()
					return leader.stale() || s.Leader == store.Leader{Value: "value", Revision: revision}
				})
				e.remove(a, entry)
				e.until("the end of the entry is told, or that of the watch", func() bool {
					s, told := n.state()
					return n.stale() || told && s.Token == 0
				})
			}
		},
	},
	{
		Name:      "connections-are-counted",
		Invariant: "Proof.Connection is another number once the connection has broken and a renewal was answered on the next one",
		check: func(e *env) {
			if e.h.Break == nil {
				e.skip("the harness has no Break")
			}
			a := e.process()
			seen := map[uint64]bool{a.proof.Connection: true}
			for range 3 {
				e.h.Break(a.Driver)
				broken := store.Now()
				var next uint64
				e.until("a renewal is answered on another connection", func() bool {
					for _, one := range a.renewals() {
						if one.Sent.Time().After(broken.Time()) {
							next = one.Connection
						}
					}
					return next != 0 && !seen[next]
				})
				seen[next] = true
			}
		},
	},
}
