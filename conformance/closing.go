package conformance

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/store"
)

// closing checks what Close does to ballots, also to those that are being cast.
var closing = []Case{
	{
		Name:     "close-against-a-cast",
		Promises: []string{"G1", "G7"},
		Explains: "a ballot that is being cast while its store is closed never leads once another one can",
		check: func(e *env) {
			elections := []string{e.election}
			for i := range 7 {
				name := fmt.Sprintf("%s/%d", e.election, i)
				e.onClose(func() { e.ok(e.h.Clear(e.ctx, name), "clear %q", name) })
				elections = append(elections, name)
			}
			rival := e.open()
			delay := e.h.TTL / 500 // so that Close can come between two steps
			began := time.Now()
			m := e.openWith(e.h.Open, delay)
			ballot := e.cast(m, "a")
			e.first(ballot)
			usual := min(time.Since(began), e.h.TTL/4)
			e.ok(m.Close(), "close")
			const tries = 30
			// The tries divide 1.6 times the usual time of a cast into thirty parts. Each closes the store at a random
			// time of another part. The factor covers stores that open the session only now, over the delayed line, which
			// takes a third of the usual time.
			for i := range tries {
				m := e.openWith(e.h.Open, delay)
				after := (float64(i) + rand.Float64()) / tries * 1.6 * float64(usual)
				e.closeAgainst(m, rival, elections, time.Duration(after))
			}
		},
	},
	{
		Name:     "close-ends-the-session",
		Promises: []string{"G7", "G3"},
		Explains: "when the leader's store is closed, the next in line leads without waiting for the session to expire",
		check: func(e *env) {
			m, b := e.openClosed(), e.open()
			leader := e.cast(m, "a")
			e.first(leader)
			next := e.cast(b, "b")
			e.ok(m.Close(), "close")
			began := e.begin()
			e.first(next)
			e.within(began, e.h.TTL/2, "the next in line is first, as Close has returned,")
		},
	},
}

// claim is a ballot that has been first, and the span of its lease in which it then leads.
type claim struct {
	lease *store.Lease
	span  store.Span
}

// closeAgainst casts a ballot in each election, and closes the store some time after that. In the first election a
// rival stands, most often behind.
func (e *env) closeAgainst(m, rival *member, elections []string, after time.Duration) {
	e.TB.Helper()
	var claimed atomic.Pointer[claim] // of the first election
	cast := make(chan store.Ballot, len(elections))
	for i, election := range elections {
		go func() {
			ballot, err := m.Cast(e.ctx, election, "a")
			if err == nil && ballot.Wait(e.ctx) == nil {
				if span, holds := ballot.Lease().Span(); holds && i == 0 {
					claimed.Store(&claim{ballot.Lease(), span})
				}
			}
			cast <- ballot
		}()
	}
	both := make(chan bool, 1)
	go func() {
		behind, err := rival.Cast(e.ctx, e.election, "b")
		if err != nil {
			both <- false
			return
		}
		err = behind.Wait(e.ctx)
		span, holds := behind.Lease().Span()
		other := claimed.Load()
		both <- err == nil && holds && other != nil && other.lease.Holds(other.span) && behind.Lease().Holds(span)
		_ = behind.Withdraw(e.ctx)
	}()
	wait := time.NewTimer(after)
	defer wait.Stop()
	<-wait.C
	e.ok(m.Close(), "close")
	e.check(!receive(e, both, "the rival's turn"), "two leaders when a store was closed %v after its cast", after)
	for range elections {
		ballot := receive(e, cast, "the end of a cast")
		if ballot == nil {
			continue
		}
		_, holds := ballot.Lease().Span()
		e.check(!holds, "a lease holds after Close, %v after the cast", after)
		e.check(ballot.Err() != nil && ballot.Wait(e.ctx) != nil, "a ballot stands after Close, %v after the cast", after)
	}
}
