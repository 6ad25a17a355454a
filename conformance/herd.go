package conformance

import (
	"context"
	"time"
)

// herd checks G6.
var herd = []Case{
	{
		Name:     "a-change-wakes-one",
		Promises: []string{"G6"},
		Explains: "when a leader resigns, the candidates behind the next in line send nothing",
		check: func(e *env) {
			const bystanders = 48
			members := []*member{e.open(), e.open()}
			leader, next := e.cast(members[0], "leader"), e.cast(members[1], "next")
			crowd := e.open() // all the others, on one session: its renewals are few
			ctx, cancel := context.WithCancel(e.ctx)
			defer cancel()
			for range bystanders {
				b := e.cast(crowd, "bystander")
				go func() { _ = b.Wait(ctx) }()
			}
			e.first(leader)
			// A change on a busy machine can take long enough for many renewals: then it says nothing.
			for turn := 0; ; turn++ {
				e.check(e.ctx.Err() == nil, "no change of leader was quick enough to count")
				before, start := crowd.Requests(), time.Now()
				e.withdraw(leader)
				e.first(next)
				e.acknowledge(next, "next")
				sent, took := crowd.Requests()-before, time.Since(start)
				if took < e.h.TTL/2 {
					e.check(sent < bystanders/2, "%d bystanders sent %d requests", bystanders, sent)
					return
				}
				// Two fresh ones would stand behind the crowd; so the crowd goes and comes back behind them.
				e.Logf("change %d took %v: once more", turn, took)
				cancel()
				e.closeAll()
				e.check(turn < 3, "no change of leader was quick enough to count")
				members = []*member{e.open(), e.open()}
				leader, next = e.cast(members[0], "leader"), e.cast(members[1], "next")
				crowd = e.open()
				ctx, cancel = context.WithCancel(e.ctx)
				defer cancel()
				for range bystanders {
					b := e.cast(crowd, "bystander")
					go func() { _ = b.Wait(ctx) }()
				}
				e.first(leader)
			}
		},
	},
}
