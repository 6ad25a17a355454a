package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/store"
)

// news checks what a store says of the leader, and of how fresh that is.
var news = []Case{
	{
		Name:     "changes-at-any-moment",
		Promises: []string{"G3", "G5"},
		Explains: "a change between looking and watching is not missed, be it of the leader or of the ballot ahead",
		check: func(e *env) {
			a, b := e.open(), e.open()
			b.Delay(e.h.TTL / 100)
			for i := range 6 {
				after := time.Duration(i) * e.h.TTL / 150 // a look and a watch take four hundredths
				leader := e.cast(a, "a")
				e.first(leader)
				e.until("there is no leader", func() bool { return e.leader(b) == store.Leader{} })
				told := make(chan store.Leader, 1)
				go func() {
					if l, err := b.Leader(e.ctx, e.election, &store.Leader{}); err == nil {
						told <- l
					}
				}()
				e.pass(after)
				record := e.acknowledge(leader, "a")
				got := receive(e, told, "the new leader")
				e.check(got == record, "the new leader is %v, not %v", got, record)
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
		Explains: "what Leader returns never goes back in time from one call to the next",
		check: func(e *env) {
			a, b := e.open(), e.open()
			ctx, cancel := context.WithCancel(e.ctx)
			defer cancel()
			read := make(chan []store.Leader, 1)
			go func() {
				var all []store.Leader
				defer func() { read <- all }()
				for ctx.Err() == nil {
					l, err := b.Leader(ctx, e.election, nil)
					if err != nil {
						return
					}
					all = append(all, l)
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
				e.withdraw(ballot)
				e.pass(e.h.TTL / 500)
			}
			cancel()
			var last store.Leader
			over := false // there was no leader after last
			for _, l := range receive(e, read, "what was read") {
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
	{
		Name:     "confirmed-is-not-ahead-of-the-news",
		Explains: "a Leader call that has not returned was right at the time that Confirmed tells, and that time goes on",
		check: func(e *env) {
			a, b := e.open(), e.open()
			ballot := e.cast(a, "a")
			e.first(ballot)
			delay := e.h.TTL / 5
			for i := range 12 { // from one renewal to the next, whenever that is
				prev := e.leader(b)
				told := make(chan struct{})
				go func() {
					defer close(told)
					_, _ = b.Leader(e.ctx, e.election, &prev)
				}()
				e.pass(e.h.TTL / 500) // for the call to be pending
				delay = e.delayReplies(b, delay)
				e.pass(time.Duration(i) * e.h.TTL / 60)
				e.acknowledge(ballot, fmt.Sprint(i))
				e.notAhead(b, time.Now(), told)
				b.DelayReplies(0)
			}
		},
	},
}

// delayReplies delays the replies to a member by as much as its store can take, at most by delay, and returns how long
// that is, once Confirmed has gone on.
func (e *env) delayReplies(m *member, delay time.Duration) time.Duration {
	e.TB.Helper()
	for ; ; delay = max(delay/2, e.h.TTL/40) {
		m.DelayReplies(delay)
		began := time.Now()
		e.until("Confirmed goes on while a call waits", func() bool {
			return m.Confirmed().After(began) || time.Since(began) > e.h.TTL
		})
		if m.Confirmed().After(began) {
			return delay
		}
	}
}

// notAhead waits until a pending Leader call has been told of a change that was made by the time given.
func (e *env) notAhead(m *member, changed time.Time, told <-chan struct{}) {
	e.TB.Helper()
	var ahead time.Time // when Confirmed was first seen to be
	e.until("the change is told", func() bool {
		confirmed := m.Confirmed()
		select {
		case <-told:
			return true
		default:
		}
		switch {
		case !confirmed.After(changed):
		case ahead.IsZero():
			ahead = time.Now()
		default: // a call that is about to return needs a moment
			e.check(time.Since(ahead) < e.h.TTL/20, "Confirmed is %v ahead of a change that is not told yet", confirmed.Sub(changed))
		}
		return false
	})
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
