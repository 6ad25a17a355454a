package zookeeper

import (
	"path"
	"slices"
	"sync"
)

// elections is what the driver knows of the elections in which it has cast ballots:
//   - that the election's node exists. Only in a new election the driver asks for the node too, with the ballot, so no
//     request is in vain: 10,000 new elections lead in two thirds of the time;
//   - which sessions have had a ballot ahead of the driver's own (TestAcknowledgementOutlivesItsBallot).
type elections struct {
	mu    sync.Mutex
	known map[string][]int64 // guarded by mu: by the election's node, the last sessions that were met, the newest last
}

// mostElections and mostMet bound the memory.
const (
	mostElections = 1 << 15
	mostMet       = 8
)

// missing reports whether an election's node is not known to exist, and takes it as known from then on.
func (k *elections) missing(dir string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.known[dir]
	if !ok {
		k.keep(dir, nil)
	}
	return !ok
}

// keep keeps what is known of an election. The caller holds mu.
func (k *elections) keep(dir string, met []int64) {
	if _, ok := k.known[dir]; k.known == nil || !ok && len(k.known) >= mostElections {
		k.known = map[string][]int64{}
	}
	k.known[dir] = met
}

// met notes whose session a ballot was made in.
func (k *elections) met(ballot string, owner int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	met := slices.DeleteFunc(k.known[path.Dir(ballot)], func(session int64) bool { return session == owner })
	k.keep(path.Dir(ballot), append(met[max(0, len(met)-mostMet+1):], owner))
}

// hasMet reports whether a session is known to have had a ballot in the election of another.
func (k *elections) hasMet(ballot string, owner int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Contains(k.known[path.Dir(ballot)], owner)
}
