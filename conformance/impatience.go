package conformance

import (
	"context"
	"errors"
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
				soon, cancel := context.WithTimeout(e.ctx, 3*e.h.TTL+e.h.Expiry)
				err := b.Wait(soon)
				cancel()
				if errors.Is(err, store.ErrLost) && b.Lease().Remaining() == 0 { // the machine is busy
					e.Logf("the session is over: %v", err)
					continue
				}
				e.ok(err, "a patient candidate waits to be first")
				if led == 0 { // once, for longer than a caller needs for its campaign and its removal
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
}

// impatient is how many callers give up early.
const impatient = 20

// giveUp campaigns, and gives up after some time.
func giveUp(ctx context.Context, st store.Store, election string, after time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, after)
	defer cancel()
	if b, err := st.Cast(ctx, election, "impatient"); err == nil {
		_ = b.Withdraw(ctx) // goes on in the background
	} else {
		<-ctx.Done() // otherwise an error that comes at once would make a busy loop
	}
}
