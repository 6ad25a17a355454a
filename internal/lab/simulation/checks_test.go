package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/store"
)

// checks are the invariants of a simulation, and the state that they need.
type checks struct {
	sim      *simulation
	began    time.Time
	observer *memory.Store // its line never fails
	stable   atomic.Bool   // leaders stay, and takeovers succeed
	history
	*witness

	mu        sync.Mutex
	violation string // the first; guarded by mu, as are all below
	notes     []string
	standing  []*simRun         // those that have not been stopped
	highest   uint64            // token of all terms won
	won       map[uint64]bool   // tokens
	acks      map[uint64]uint64 // tokens, by revision
	values    map[uint64]string // by revision
	workers   []*simRun         // whose leader's function is running
}

func newChecks(s *simulation, all *witnesses) *checks {
	observer, err := memory.Open(s.memory, &memory.Config{TTL: simTTL, Grace: simGrace})
	if err != nil {
		panic(err)
	}
	k := &checks{
		sim: s, began: time.Now(), observer: observer, witness: newWitness(all),
		history: history{ended: map[leadership.Leader]time.Time{}},
		won:     map[uint64]bool{}, acks: map[uint64]uint64{}, values: map[uint64]string{},
	}
	s.memory.Trace(func(e memory.Event) {
		k.traced(e)
		if e.Kind == memory.Led && e.Election == election {
			k.led(e)
		}
	})
	return k
}

func (k *checks) note(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.notes = append(k.notes, fmt.Sprintf("%10v  ", time.Since(k.began))+fmt.Sprintf(format, args...))
}

func (k *checks) violate(format string, args ...any) {
	k.note("VIOLATION: "+format, args...)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.violation == "" {
		k.violation = fmt.Sprintf(format, args...)
	}
}

func (k *checks) failed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.violation != ""
}

func (k *checks) schedule() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.Join(k.notes, "\n")
}

func (k *checks) stands(r *simRun) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.standing = append(k.standing, r)
}

func (k *checks) stood(r *simRun) {
	if r.IsLeader() {
		k.violate("%s leads after Stop", r.value)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.standing = slices.DeleteFunc(k.standing, func(o *simRun) bool { return o == r })
}

// ended checks the error that a driver returned: nil after Stop, ErrClosed if its store was closed.
func (k *checks) ended(r *simRun, err error) {
	if err != nil && !strings.Contains(err.Error(), leadership.ErrClosed.Error()) {
		k.violate("%s ended with %v", r.value, err)
	}
}

// rest waits for d, but not longer than ctx.
func (k *checks) rest(ctx context.Context, d int64) {
	select {
	case <-time.After(time.Duration(d)):
	case <-ctx.Done():
	}
}

// leaders returns the candidates that see themselves as leader now.
func (k *checks) leaders() (list []*simRun) {
	k.mu.Lock()
	standing := slices.Clone(k.standing)
	k.mu.Unlock()
	for _, r := range standing {
		if r.IsLeader() {
			list = append(list, r)
		}
	}
	return list
}

// wins is called when a term has begun, before its ballot can be given back: two leaders at any time would be two at one
// of these instants. A hook would be told later, when another candidate might have won.
func (k *checks) wins(r *simRun, token uint64) {
	k.note("%s won %d", r.value, token)
	k.witness.began(k.sim.peers)
	k.oneLeader(r)
	k.mu.Lock()
	last, again := k.highest, k.won[token]
	k.highest = max(last, token)
	k.won[token] = true
	k.mu.Unlock()
	if again {
		k.violate("%s: a second term has token %d", r.value, token)
	}
	if token <= last && !k.sim.early {
		k.violate("%s won with token %d, after one had won with %d", r.value, token, last)
	}
}

func (k *checks) events(r *simRun) func(leadership.Event) {
	return func(e leadership.Event) {
		switch e.Kind {
		case leadership.ResignationRequested:
			k.resigned()
		case leadership.TermEnded:
			k.note("%s lost %d: %v", r.value, e.Token, e.Err)
		case leadership.Acknowledged:
			k.note("%s acknowledged %d", r.value, e.Token)
			k.acknowledged(e.Token, e.Leader)
			k.notified(r.value, e.Leader)
		case leadership.AttemptFailed:
			k.note("%s: %v", r.value, e.Err)
			if errors.Is(e.Err, store.ErrDenied) { // also if it ended a ballot
				return
			}
			for _, wanted := range []error{leadership.ErrLost, leadership.ErrResigned, leadership.ErrStopped} {
				if errors.Is(e.Err, wanted) {
					k.violate("%s: what is no error is going to be tried again: %v", r.value, e.Err)
				}
			}
		}
	}
}

func (k *checks) oneLeader(self *simRun) {
	leaders := k.leaders()
	if self != nil && !slices.Contains(leaders, self) {
		leaders = append(leaders, self)
	}
	if len(leaders) < 2 || k.sim.early {
		return
	}
	if self != nil && !self.IsLeader() { // its term was over before the hook was called
		return
	}
	k.violate("two leaders: %s and %s", leaders[0].value, leaders[1].value)
}

// acknowledged checks that tokens never go back in the order of the acknowledgements: a leader that acknowledges is not
// fenced out by an earlier one.
func (k *checks) acknowledged(token uint64, leader leadership.Leader) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.acks[leader.Revision] = token
}

func (k *checks) fencing() {
	k.mu.Lock()
	var revisions []uint64
	for revision := range k.acks {
		revisions = append(revisions, revision)
	}
	slices.Sort(revisions)
	acks := k.acks
	k.mu.Unlock()
	last := uint64(0)
	for _, revision := range revisions {
		if acks[revision] < last {
			k.violate("token %d was acknowledged after token %d", acks[revision], last)
		}
		last = acks[revision]
	}
}

// notified checks that a revision always means the same leader.
func (k *checks) notified(who string, leader leadership.Leader) {
	k.mu.Lock()
	before, known := k.values[leader.Revision]
	k.values[leader.Revision] = leader.Value
	k.mu.Unlock()
	if known && before != leader.Value {
		k.violate("%s was told that revision %d is %q, others that it is %q", who, leader.Revision, leader.Value, before)
	}
}

// working checks that no two leaders' functions run at once, since all of them stop within the grace.
func (k *checks) working(r *simRun, n int) {
	k.mu.Lock()
	if n < 0 {
		r.rude.Store(false)
		k.workers = slices.DeleteFunc(k.workers, func(o *simRun) bool { return o == r })
	} else {
		k.workers = append(k.workers, r)
	}
	workers := slices.Clone(k.workers)
	k.mu.Unlock()
	for i, a := range workers {
		for _, b := range workers[:i] {
			if a == b || !k.sim.early && !a.rude.Load() && !b.rude.Load() {
				k.violate("the leader's functions of %s and %s run at once", b.value, a.value)
			}
		}
	}
}
