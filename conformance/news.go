package conformance

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
)

// news checks what a store says of the leader, and of how fresh that is.
var news = []Case{
	{
		Name:     "changes-at-any-moment",
		Promises: []string{"G3", "G5"},
		Explains: "a change between a read and the watch after it is not missed, of the leader or of the ballot ahead",
		check: func(e *env) {
			a, b := e.open(), e.open()
			b.Delay(e.h.TTL / 100)
			var last store.Leader
			for i := range 6 {
				after := time.Duration(i) * e.h.TTL / 150 // a read and a watch take TTL/25
				leader := e.cast(a, "a")
				e.first(leader)
				e.until("there is no leader", func() bool { return e.leader(b) == store.Leader{} })
				told := make(chan store.Leader, 1)
				go func() {
					if l, err := e.next(e.ctx, b, store.Leader{}); err == nil {
						told <- l
					}
				}()
				e.pass(after)
				record := e.acknowledge(leader, "a")
				got := receive(e, told, "the new leader")
				e.check(repeats(record, got) && got.Revision > last.Revision, "the new leader is %v, not %v", got, record)
				last = record
				next := e.cast(b, "b")
				first := make(chan error, 1)
				go func() { first <- next.Wait(e.ctx) }()
				e.pass(after)
				e.withdraw(leader)
				e.ok(receive(e, first, "b's turn"), "wait to be first")
				e.withdraw(next)
			}
		},
	},
	{
		Name:     "leader-never-goes-back",
		Promises: []string{"G5"},
		Explains: "what Observe returns never goes back in time from one call to the next",
		check: func(e *env) {
			a, b := e.open(), e.open()
			ctx, cancel := context.WithCancel(e.ctx)
			defer cancel()
			read := make(chan []store.Known, 1)
			led := make(chan struct{}) // closed when a leader has been read
			seen := sync.OnceFunc(func() { close(led) })
			go func() {
				var all []store.Known
				defer func() { read <- all }()
				for ctx.Err() == nil {
					known, err := b.Observe(ctx, e.election, nil)
					if err != nil {
						return
					}
					all = append(all, known)
					if known.Leader.Revision != 0 {
						seen()
					}
					e.pass(e.h.TTL / 2000)
				}
			}()
			for i := range 5 {
				ballot := e.cast(a, "a")
				e.first(ballot)
				for j := range 3 {
					e.acknowledge(ballot, fmt.Sprint(i, j))
					e.pass(e.h.TTL / 500)
				}
				receiveClosed(e, led, "a leader that is read")
				e.withdraw(ballot)
				e.pass(e.h.TTL / 500)
			}
			cancel()
			var last store.Leader
			var asOf time.Time
			over := false // there was no leader after last
			for _, known := range receive(e, read, "what was read") {
				e.check(!known.AsOf.Before(asOf), "AsOf went back by %v", asOf.Sub(known.AsOf))
				asOf = known.AsOf
				l := known.Leader
				switch {
				case l == store.Leader{}:
					over = true
					continue
				case l.Revision < last.Revision, l.Revision == last.Revision && (over || l != last):
					e.Fatalf("%v was read after %v", l, last)
				}
				last, over = l, false
			}
			e.check(last != store.Leader{}, "no leader was read")
		},
	},
}

// pass lets some time pass.
func (e *env) pass(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.ctx.Done():
	}
}
