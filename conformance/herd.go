package conformance

import (
	"context"
	"time"
)

// herd checks G6.
var herd = []Case{
	{
		Name:     "a-change-wakes-one",
		Promises: []string{"G6", "G4"},
		Explains: "when a leader resigns and its successor acknowledges, the candidates behind it send nothing",
		check: func(e *env) {
			// A herd is there at each change. On a busy machine a change can take so long that the renewals of the session
			// hide what is counted, and on a cluster whose members are restarted a connection can break meanwhile: then the
			// bystanders read anew what they know.
			for range 5 {
				sent, took := e.changeBeforeACrowd()
				if sent < crowd/2 && took < 2*e.h.TTL {
					return
				}
				e.Logf("at a change of %v, %d bystanders sent %d requests: once more", took, crowd, sent)
			}
			e.Fatalf("the bystanders sent too many requests at each of five changes")
		},
	},
}

// crowd is the number of waiting candidates: far more than the renewals of a session within two TTLs.
const crowd = 100

// changeBeforeACrowd changes the leader once, and returns how many requests a crowd of waiting candidates sent meanwhile.
// They share a session, whose renewals count too.
func (e *env) changeBeforeACrowd() (sent int, took time.Duration) {
	a, b, bystanders := e.open(), e.open(), e.open()
	defer e.closeAll()
	leader, next := e.cast(a, "leader"), e.cast(b, "next")
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	for range crowd {
		ballot := e.cast(bystanders, "bystander")
		go func() { _ = ballot.Wait(ctx) }()
	}
	e.first(leader)
	e.acknowledge(leader, "leader")
	e.awaitQuiet(bystanders)

	before, start := bystanders.Requests(), time.Now()
	e.withdraw(leader)
	e.first(next)
	e.acknowledge(next, "next")
	e.awaitQuiet(bystanders)
	return bystanders.Requests() - before, time.Since(start)
}

// awaitQuiet waits until a member sends nothing but renewals.
func (e *env) awaitQuiet(m *member) {
	e.TB.Helper()
	last, since := m.Requests(), time.Now()
	e.until("nothing is sent any more", func() bool {
		if now := m.Requests(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > e.h.TTL/20
	})
}
