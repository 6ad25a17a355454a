// Package metrics measures candidates and followers for those who export that, in whatever format.
//
// What happens is counted by hooks. What the clock decides is computed when it is read: a gauge that a hook has set stays 1
// in a process that was frozen.
package metrics

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
)

// Set is what is measured in one process. Its methods may be called from any number of goroutines.
type Set struct {
	mu        sync.Mutex
	elections map[string]*election     // guarded by mu, as is renewals
	renewals  map[string]*distribution // by store
}

// election is what is measured of one election.
type election struct {
	candidate *leadership.Candidate // nil if there is none
	follower  *leadership.Follower  // nil if there is none

	terms, failed, overdue, changes float64
	ended                           map[string]float64 // by cause
	errors                          map[string]float64 // by kind
	takeover, windingDown           distribution
	leaderless                      distribution

	token uint64    // of the last term; 0 once it has been acknowledged or has ended
	began time.Time // when the last term did
	gone  time.Time // since when there is no leader; zero if there is one, or if that is not known
}

// The values of labels. All series of a candidate exist from the beginning, or a rate would miss the first event.
var (
	causes = []string{"lost", "resigned", "requested", "unfit", "stopped", "closed"}
	kinds  = []string{"denied", "unavailable", "unknown_outcome", "no_lease", "token_regressed", "other"}
)

// The upper bounds of buckets, in seconds.
var (
	workBounds    = []float64{.001, .01, .1, .5, 1, 5, 10, 30, 60, 300}
	renewalBounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	gapBounds     = []float64{.001, .005, .01, .05, .1, .5, 1, 2.5, 5, 10, 20, 30, 60}
)

// of returns what is measured of an election. The caller holds mu.
func (s *Set) of(name string) *election {
	if s.elections == nil {
		s.elections = map[string]*election{}
	}
	e := s.elections[name]
	if e == nil {
		e = &election{
			ended: map[string]float64{}, errors: map[string]float64{},
			takeover: newDistribution(workBounds), windingDown: newDistribution(workBounds), leaderless: newDistribution(gapBounds),
		}
		s.elections[name] = e
	}
	return e
}

// Candidate adds a candidate. It takes the place of an earlier one in the same election.
func (s *Set) Candidate(c *leadership.Candidate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(c.Election()).candidate = c
}

// Follower adds a follower. It takes the place of an earlier one of the same election.
func (s *Set) Follower(f *leadership.Follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(f.Election()).follower = f
}

// Renewed returns a function for store.Options.Renewed, of a store with this name.
func (s *Set) Renewed(store string) func(time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.renewals == nil {
		s.renewals = map[string]*distribution{}
	}
	d := s.renewals[store]
	if d == nil {
		made := newDistribution(renewalBounds)
		d = &made
		s.renewals[store] = d
	}
	return func(latency time.Duration) {
		s.mu.Lock()
		defer s.mu.Unlock()
		d.add(latency)
	}
}

// Hooks returns the hooks that count, for the Options of all candidates and followers.
func (s *Set) Hooks() *leadership.Hooks {
	count := func(name string, f func(e *election)) {
		s.mu.Lock()
		defer s.mu.Unlock()
		f(s.of(name))
	}
	return &leadership.Hooks{
		TermBegan: func(name string, token uint64) {
			count(name, func(e *election) { e.terms++; e.token, e.began = token, time.Now() })
		},
		Acknowledged: func(name string, token uint64, _ leadership.Leader) {
			count(name, func(e *election) {
				if e.token == token {
					e.token = 0
					e.takeover.add(time.Since(e.began))
				}
			})
		},
		TermEnded: func(name string, token uint64, cause error) {
			count(name, func(e *election) {
				e.ended[causeOf(cause)]++
				if e.token == token {
					e.token = 0
					e.failed++
				}
			})
		},
		GivenBack: func(name string, _ uint64, after time.Duration) {
			count(name, func(e *election) { e.windingDown.add(after) })
		},
		InJeopardy: func(name string, _ uint64, _ time.Duration) {
			count(name, func(e *election) { e.overdue++ })
		},
		LeaderChanged: func(name string, leader leadership.Leader) {
			count(name, func(e *election) { e.leaderChanged(leader) })
		},
		Error: func(name string, err error, _ time.Duration) {
			count(name, func(e *election) { e.errors[kindOf(err)]++ })
		},
	}
}

// leaderChanged counts a change, and the time without a leader before it. While the follower does not hear from the store,
// nothing is known of that time.
func (e *election) leaderChanged(leader leadership.Leader) {
	e.changes++
	fresh := e.follower != nil && e.follower.Fresh()
	switch {
	case !fresh:
		e.gone = time.Time{}
	case leader.Revision == 0:
		e.gone = time.Now()
	case !e.gone.IsZero():
		e.leaderless.add(time.Since(e.gone))
		e.gone = time.Time{}
	}
}

func causeOf(err error) string {
	switch {
	case errors.Is(err, leadership.ErrClosed):
		return "closed"
	case errors.Is(err, leadership.ErrRequested):
		return "requested"
	case errors.Is(err, leadership.ErrUnfit):
		return "unfit"
	case errors.Is(err, leadership.ErrResigned):
		return "resigned"
	case errors.Is(err, leadership.ErrStopped):
		return "stopped"
	}
	return "lost"
}

func kindOf(err error) string {
	switch {
	case errors.Is(err, store.ErrUnknownOutcome):
		return "unknown_outcome"
	case errors.Is(err, store.ErrUnavailable):
		return "unavailable"
	case errors.Is(err, store.ErrDenied):
		return "denied"
	case errors.Is(err, leadership.ErrNoLease):
		return "no_lease"
	case errors.Is(err, leadership.ErrTokenRegressed):
		return "token_regressed"
	}
	return "other"
}

// distribution counts times in buckets.
type distribution struct {
	Bounds []float64 // upper, in seconds
	Counts []uint64  // of the times up to each bound that are above the one before
	Count  uint64
	Sum    float64 // seconds
}

func newDistribution(bounds []float64) distribution {
	return distribution{Bounds: bounds, Counts: make([]uint64, len(bounds))}
}

func (d *distribution) add(t time.Duration) {
	seconds := t.Seconds()
	d.Count++
	d.Sum += seconds
	if i, _ := slices.BinarySearch(d.Bounds, seconds); i < len(d.Bounds) {
		d.Counts[i]++
	}
}

// Histogram returns a copy.
func (d *distribution) histogram() *Histogram {
	h := Histogram{Count: d.Count, Sum: d.Sum}
	total := uint64(0)
	for i, n := range d.Counts {
		total += n
		h.Buckets = append(h.Buckets, Bucket{d.Bounds[i], total})
	}
	return &h
}

// Elections returns the names of the elections that have a candidate or a follower, in their order.
func (s *Set) Elections() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.elections)) {
		if e := s.elections[name]; e.candidate != nil || e.follower != nil {
			names = append(names, name)
		}
	}
	return names
}

// Of returns the candidate and the follower of an election, nil if there is none.
func (s *Set) Of(name string) (*leadership.Candidate, *leadership.Follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.elections[name]
	if e == nil {
		return nil, nil
	}
	return e.candidate, e.follower
}
