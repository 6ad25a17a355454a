package simulation_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/store"
)

// checkAtRest checks the invariants that hold whenever everything is at rest.
func (k *checks) checkAtRest() {
	k.oneLeader(nil)
	ballots, leader := k.service()
	if leader.Revision != 0 {
		if len(ballots) == 0 || ballots[0].Value != leader.Value {
			k.violate("%q is acknowledged, and the ballots are %v", leader.Value, ballots)
			return
		}
		k.acknowledged(ballots[0].Token, leader)
		k.notified("the observer", leader)
	}
	if !k.sim.early {
		for _, r := range k.leaders() {
			if term, leads := r.Term(); leads && (len(ballots) == 0 || ballots[0].Token != term.Token()) {
				k.violate("%s leads with token %d, and the ballots are %v", r.value, term.Token(), ballots)
			}
		}
	}
	for _, f := range k.sim.followers {
		if f.Follower != nil {
			k.follows(f)
		}
	}
}

func (k *checks) service() ([]store.Standing, leadership.Leader) {
	ballots, err := k.observer.Ballots(background, election)
	if err != nil {
		panic(err)
	}
	leader, err := storetest.Leader(background, k.observer, election, nil)
	if err != nil {
		panic(err)
	}
	return ballots, leader
}

// agreed reports whether there is a leader that all members know.
func (k *checks) agreed() bool {
	synctest.Wait()
	leaders := k.leaders()
	_, leader := k.service()
	if len(leaders) != 1 || leaders[0].value != leader.Value {
		return false
	}
	return !slices.ContainsFunc(k.sim.followers, func(f *simFollower) bool {
		known, led := f.Leader()
		return !led || known != leader
	})
}

// opinions returns which leader each member knows.
func (k *checks) opinions() string {
	var b strings.Builder
	ballots, leader := k.service()
	fmt.Fprintf(&b, "the service has %v and %v", ballots, leader)
	for _, r := range k.leaders() {
		fmt.Fprintf(&b, ", %s leads", r.value)
	}
	for _, f := range k.sim.followers {
		known, _ := f.Leader()
		fmt.Fprintf(&b, ", %s knows %v", f.name, known)
	}
	return b.String()
}

// nothingLeft checks what is left when everything has been stopped: no ballot and no acknowledgement, once the sessions
// that were closed on a cut line have expired. Goroutines that are left make synctest fail.
func (k *checks) nothingLeft() {
	time.Sleep(2 * (simTTL + simLate)) // sessions end late, their clocks are slow, and requests are late
	if k.sim.peers {
		k.expireAll()
	}
	synctest.Wait()
	ballots, leader := k.service()
	if len(ballots) > 0 || leader.Revision != 0 {
		k.violate("left after everything was stopped: %v %v", ballots, leader)
	}
	if n := len(k.workers); n > 0 {
		k.violate("%d leaders' functions are still running", n)
	}
	k.fencing()
}

// expireAll casts one more ballot and removes it. Before that ballot is first, all sessions ahead of it have to end.
func (k *checks) expireAll() {
	st, err := memory.Open(k.sim.memory, &memory.Config{TTL: simTTL, Grace: simGrace, Peers: true})
	if err != nil {
		panic(err)
	}
	defer func() { _ = st.Close() }()
	list, _ := k.service()
	ctx, cancel := context.WithTimeout(background, time.Duration(len(list)+1)*2*simTTL)
	defer cancel()
	ballot, err := st.Cast(ctx, election, "last")
	if err == nil {
		err = ballot.Wait(ctx)
	}
	if err != nil {
		k.violate("the last candidate behind %v: %v", list, err)
	}
}
