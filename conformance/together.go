package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
)

// together checks G1 and G4 among candidates that stand at the same moment.
var together = []Case{
	{
		Name:     "cast-at-the-same-moment",
		Promises: []string{"G1", "G4"},
		Explains: "of ballots that are cast at the same moment one becomes first, and no other while it stands",
		check: func(e *env) {
			members := []*member{e.open(), e.open(), e.open(), e.open()}
			began, lost := time.Now(), 0
			for round := 0; round < 5 && (round < 2 || time.Since(began) < e.h.TTL); {
				of := members
				if round == 0 { // all ballots of one session, and then of several
					of = members[:1]
				}
				if e.oneFirst(of) {
					round++
					continue
				}
				lost++ // on a busy machine a session can end
				e.check(lost < 20, "in %d rounds a ballot was lost whose session is renewed", lost)
			}
		},
	},
}

// atOnce is how many ballots are cast at the same moment.
const atOnce = 40

// castBallot is a ballot and the value that it was cast with.
type castBallot struct {
	store.Ballot
	value string
}

// oneFirst casts ballots at the same moment, and checks that one alone becomes first. It returns false if a ballot was
// lost that was first, or none became first since one was lost.
func (e *env) oneFirst(members []*member) bool {
	e.TB.Helper()
	ctx, cancel := context.WithCancel(e.ctx)
	var mu sync.Mutex
	var ballots []castBallot
	var failed error
	firsts := make(chan castBallot, atOnce)
	var casts, waits sync.WaitGroup
	for i := range atOnce {
		value := fmt.Sprint("candidate ", i)
		casts.Go(func() {
			b, err := tryCast(ctx, members[i%len(members)], e.election, value)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
				return
			}
			ballot := castBallot{b, value}
			ballots = append(ballots, ballot)
			waits.Go(func() {
				if b.Wait(ctx) == nil {
					firsts <- ballot
				}
			})
		})
	}
	defer func() {
		cancel()
		waits.Wait()
	}()
	casts.Wait()
	e.ok(failed, "cast a ballot")
	defer func() {
		for _, b := range ballots {
			if err := b.Withdraw(e.ctx); b.Lease().Remaining() > 0 { // else the session is over, and takes the ballot along
				e.ok(err, "withdraw")
			}
		}
	}()
	all := make(chan struct{}) // closed when all calls of Wait have returned
	go func() { waits.Wait(); close(all) }()
	var one castBallot
	select {
	case one = <-firsts:
	case <-all:
		select {
		case one = <-firsts:
		default:
			if e.ctx.Err() != nil {
				e.Fatalf("waited in vain for the first of those that were cast at the same moment")
			}
			return false // all were lost
		}
	}
	select {
	case two := <-firsts:
		if e.stands(one) && e.stands(two) {
			e.Fatalf("%s with the token %d and %s with the token %d were first at the same time", one.value, one.Token(), two.value, two.Token())
		}
		return false
	case <-time.After(e.h.TTL / 50):
	}
	return e.stands(one)
}

// stands reports whether a ballot has not been lost. It asks the service: an acknowledgement needs a ballot that stands.
func (e *env) stands(b castBallot) bool {
	e.TB.Helper()
	_, err := e.tryAcknowledge(b, b.value)
	if err != nil {
		e.TB.Logf("%s with the token %d acknowledges: %v", b.value, b.Token(), err)
	}
	return !errors.Is(err, store.ErrLost) && b.Err() == nil
}
