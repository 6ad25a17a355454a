package simulation_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/go-leadership/leadership/internal/memory"
)

// The witnesses: states that the schedules must reach, or the checks would show nothing.
const (
	takeoverAfterExpiry   = "takeover after expiry"
	staleAcknowledgement  = "stale acknowledgement refused"
	orphanFound           = "orphan found by its nonce"
	voidBeforeCast        = "void before its cast"
	lateConfirmation      = "late confirmation"
	goneWithPredecessor   = "own ballot and predecessor deleted in one step"
	sessionOverBeforeEnd  = "session over while a reply is on its way"
	resignationOnRequest  = "resignation on request"
	switchOver            = "switch-over by an operator"
	expiryByPeer          = "takeover after expiry by a peer"
	witnessesPerThousand  = 20
	schedulesForWitnesses = 1000
)

// witnesses counts what all schedules have reached.
type witnesses struct {
	mu        sync.Mutex
	counts    map[string]int // guarded by mu
	schedules int            // guarded by mu
}

func newWitnesses() *witnesses {
	w := &witnesses{counts: map[string]int{}}
	for _, name := range []string{
		takeoverAfterExpiry, staleAcknowledgement, orphanFound, voidBeforeCast, lateConfirmation, goneWithPredecessor,
		sessionOverBeforeEnd, resignationOnRequest, switchOver, expiryByPeer,
	} {
		w.counts[name] = 0
	}
	return w
}

// check fails if a state has not been reached often enough.
func (w *witnesses) check(t *testing.T) {
	t.Helper()
	for name, n := range w.counts {
		t.Logf("%d schedules: %d times %s", w.schedules, n, name)
		if w.schedules >= schedulesForWitnesses && n*1000 < witnessesPerThousand*w.schedules {
			t.Errorf("%s was reached %d times in %d schedules, less than %d times in 1,000",
				name, n, w.schedules, witnessesPerThousand)
		}
	}
}

// witness counts the states that one schedule reaches. Each counts once, so that one schedule can't stand for many.
type witness struct {
	all     *witnesses
	mu      sync.Mutex
	seen    map[string]bool // guarded by mu, as are all below
	void    map[string]bool // nonces that were found when they became void
	expired bool            // a leader's session has expired, and another leader has not begun since
}

func newWitness(all *witnesses) *witness {
	return &witness{all: all, seen: map[string]bool{}, void: map[string]bool{}}
}

// traced receives the events of the service.
func (w *witness) traced(e memory.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e.Kind {
	case memory.LeaderExpired:
		w.expired = true
	case memory.AcknowledgementRefused:
		w.seen[staleAcknowledgement] = true
	case memory.VoidFound:
		w.seen[orphanFound], w.void[e.Nonce] = true, true
	case memory.EnterVoid:
		if !w.void[e.Nonce] {
			w.seen[voidBeforeCast] = true
		}
	case memory.WentTogether:
		w.seen[goneWithPredecessor] = true
	case memory.ConfirmedLate:
		w.seen[lateConfirmation] = true
	case memory.EndedMeanwhile:
		w.seen[sessionOverBeforeEnd] = true
	}
}

// began notes that a term has begun.
func (w *witness) began(peers bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.expired {
		w.expired = false
		w.seen[takeoverAfterExpiry] = true
		w.seen[expiryByPeer] = w.seen[expiryByPeer] || peers
	}
}

// resigned notes that a leader has resigned because it was asked to.
func (w *witness) resigned() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[resignationOnRequest] = true
}

// switched notes that an operator has switched over.
func (w *witness) switched() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[switchOver] = true
}

// count adds what the schedule has reached to what all have.
func (w *witness) count() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	w.all.schedules++
	for name, seen := range w.seen {
		if seen {
			w.all.counts[name]++
		}
	}
}

// String returns what the schedule has reached.
func (w *witness) String() string { return fmt.Sprint(w.seen) }
