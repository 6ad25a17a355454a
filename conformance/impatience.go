package conformance

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
)

// impatience checks that callers whose contexts end early harm no other.
var impatience = []Case{
	{
		Name:     "impatient-callers-harm-no-other",
		Promises: []string{"G3"},
		Explains: "beside callers that give up before the service answers, a patient candidate leads soon, and no ballots pile up",
		check: func(e *env) {
			a, observer := e.open(), e.open()
			delay := e.h.TTL / 200
			e.withdraw(e.cast(a, "a")) // there is a session
			a.Delay(delay)
			ctx, stop := context.WithCancel(e.ctx)
			var callers sync.WaitGroup
			e.onClose(func() { stop(); callers.Wait() })
			for i := range impatient {
				callers.Go(func() {
					for n := i; ctx.Err() == nil; n++ {
						giveUp(ctx, a, e.election, delay*time.Duration(1+n%4)) // before and after the request is carried out
					}
				})
			}
			for led := 0; led < 10; {
				b := e.cast(a, "patient")
				err := e.patiently(3*e.h.TTL+e.h.Expiry, b.Wait)
				if errors.Is(err, store.ErrLost) && b.Lease().Remaining() == 0 { // the machine is busy
					e.Logf("the session is over: %v", err)
					continue
				}
				e.ok(err, "a patient candidate waits to be first")
				if led == 0 { // once, for longer than a caller needs for its cast and its removal
					e.during(15*delay, "the patient candidate keeps its ballot", func() bool {
						return b.Err() == nil || b.Lease().Remaining() == 0
					})
				}
				led++
				standing := len(e.ballots(observer))
				e.withdraw(b)
				e.check(standing <= 5*impatient, "%d ballots stand", standing)
			}
			stop()
			callers.Wait()
			e.until("nothing is left of them", func() bool { return len(e.ballots(observer)) == 0 })
		},
	},
	{
		Name:     "lost-replies-and-impatient-callers",
		Promises: []string{"G3"},
		Explains: "if one in ten replies is lost and some callers give up early, a patient candidate of the same store leads soon",
		check: func(e *env) {
			a, observer := e.open(), e.open()
			trip := e.h.TTL / 100
			e.withdraw(e.cast(a, "a")) // there is a session
			a.Delay(trip / 2)
			ctx, stop := context.WithCancel(e.ctx)
			var callers sync.WaitGroup
			e.onClose(func() { stop(); callers.Wait() })
			for range 3 {
				callers.Go(func() {
					for ctx.Err() == nil {
						giveUp(ctx, a, e.election, 2*trip)
					}
				})
			}
			led := make(chan struct{})
			for range 2 {
				callers.Go(func() { e.leadAgainAndAgain(ctx, a, led) })
			}
			callers.Go(func() { e.loseOneInTen(ctx, a, trip) })
			limit := 3*e.h.TTL + e.h.Expiry // a session that is lost has to expire
			var longest time.Duration
			for range 30 {
				began := time.Now()
				err := e.patiently(limit, func(ctx context.Context) error {
					select {
					case <-led:
						return nil
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				})
				if err != nil {
					e.Fatalf("none leads: %v, and %d ballots stand", err, len(e.ballots(observer)))
				}
				longest = max(longest, time.Since(began))
			}
			e.Logf("none led for %v at the longest", longest)
			stop()
			callers.Wait()
			a.Heal()
			e.until("nothing is left of them", func() bool { return len(e.ballots(observer)) == 0 })
		},
	},
}

// leadAgainAndAgain waits to be first without a limit, tells so, and withdraws, until ctx ends.
func (e *env) leadAgainAndAgain(ctx context.Context, m *member, led chan<- struct{}) {
	for ctx.Err() == nil {
		b, err := tryCast(ctx, m, e.election, "patient")
		if err != nil {
			continue // the outcome of its request is unknown, or ctx has ended
		}
		if b.Wait(ctx) == nil {
			select {
			case led <- struct{}{}:
			case <-ctx.Done():
			}
		}
		_ = b.Withdraw(ctx) // goes on in the background
	}
}

// loseOneInTen breaks the connections on which replies come, for a moment, each time that about ten requests have been
// sent.
func (e *env) loseOneInTen(ctx context.Context, m *member, trip time.Duration) {
	random := rand.New(rand.NewPCG(1, 1))
	tick := time.NewTicker(max(time.Millisecond, trip/5))
	defer tick.Stop()
	for next := m.Requests(); ctx.Err() == nil; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if m.Requests() < next {
			continue
		}
		m.LoseReplies()
		select {
		case <-time.After(trip / 4):
		case <-ctx.Done():
		}
		m.Heal()
		next = m.Requests() + 1 + random.IntN(19)
	}
}

// impatient is how many callers give up early.
const impatient = 20

// giveUp casts, and gives up after some time.
func giveUp(ctx context.Context, st store.Store, election string, after time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, after)
	defer cancel()
	if b, err := st.Cast(ctx, election, "impatient"); err == nil {
		_ = b.Withdraw(ctx) // goes on in the background
	} else {
		<-ctx.Done() // otherwise an error that comes at once would make a busy loop
	}
}
