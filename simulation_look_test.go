package leadership_test

import (
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
)

// look checks what has to hold whenever everything is at rest.
func (k *checks) look() {
	k.oneLeader(nil)
	ballots, leader := k.service()
	if leader.Revision != 0 {
		if len(ballots) == 0 || ballots[0].Value != leader.Value {
			k.violate("%q is acknowledged, and the ballots are %v", leader.Value, ballots)
			return
		}
		k.acknowledged(ballots[0].Token, leader)
		k.told("the observer", leader)
	}
	if !k.sim.early {
		for _, r := range k.leaders() {
			k.mu.Lock()
			token := k.token[r]
			k.mu.Unlock()
			if len(ballots) == 0 || ballots[0].Token != token {
				k.violate("%s leads with token %d, and the ballots are %v", r.value, token, ballots)
			}
		}
	}
	for _, f := range k.sim.followers {
		if f.Follower != nil {
			k.follows(f)
		}
	}
	k.remember(leader)
}

func (k *checks) service() ([]store.Standing, leadership.Leader) {
	ballots, err := k.observer.Ballots(background, election)
	if err != nil {
		panic(err)
	}
	leader, err := k.observer.Leader(background, election, nil)
	if err != nil {
		panic(err)
	}
	return ballots, leader
}

func (k *checks) remember(leader leadership.Leader) {
	highest := leader.Revision
	if n := len(k.history); n > 0 {
		highest = max(highest, k.history[n-1].highest)
	}
	k.history = append(k.history, seen{time.Now(), leader, highest})
}

// follows checks that a follower's leader never goes back, and that it was right at the time that AsOf says.
func (k *checks) follows(f *simFollower) {
	asOf := f.AsOf()
	leader, led := f.Leader()
	if led {
		if leader.Revision < f.highest {
			k.violate("%s went back from revision %d to %d", f.name, f.highest, leader.Revision)
		}
		f.highest = leader.Revision
		k.told(f.name, leader)
	}
	if asOf.IsZero() {
		return
	}
	i, _ := slices.BinarySearchFunc(k.history, asOf, func(s seen, t time.Time) int { return s.at.Compare(t) })
	if i == 0 {
		return
	}
	before := k.history[i-1] // what was so before the time that the follower speaks of
	switch {
	case led && before.leader.Revision > leader.Revision,
		led && before.leader.Revision == 0 && before.highest >= leader.Revision:
		k.violate("%s says that %q (%d) led as of %v, and %v earlier it was %q (%d)", f.name, leader.Value, leader.Revision,
			asOf.Sub(k.began), asOf.Sub(before.at), before.leader.Value, before.leader.Revision)
	case !led && before.leader.Revision != 0 && k.ledSince(i-1):
		k.violate("%s says that there was no leader as of %v, and %q has all the time since", f.name, asOf.Sub(k.began), before.leader.Value)
	}
}

// ledSince reports whether one acknowledgement has stood from a look on until now.
func (k *checks) ledSince(i int) bool {
	_, now := k.service()
	return now == k.history[i].leader && !slices.ContainsFunc(k.history[i:], func(s seen) bool { return s.leader != now })
}

// settled reports whether there is a leader whom everybody knows.
func (k *checks) settled() bool {
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

// opinions tells what everybody believes.
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
	time.Sleep(simTTL)
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
