// Package metrics measures candidates and followers for those who export that, in whatever format.
//
// What happens is counted by hooks. What the clock decides is computed when it is read: a gauge that a hook has set stays 1
// in a process that was frozen.
package metrics

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
)

// Set is what is measured in one process. Its methods may be called from any number of goroutines.
type Set struct {
	// Observe is called for each time that is added to a histogram, with the name of its family and the value of its label.
	// It may be nil.
	Observe func(family, label string, t time.Duration)

	mu        sync.Mutex
	elections map[string]*election     // guarded by mu, as is renewals
	renewals  map[string]*distribution // by store
}

// election is what is measured of one election.
type election struct {
	candidate *leadership.Candidate // nil if there is none
	follower  *leadership.Follower  // nil if there is none
	queue     *queue                // nil if it was never read

	terms, failed, overdue, changes float64
	ended                           map[string]float64       // by cause
	errors                          map[string]float64       // by kind
	times                           map[string]*distribution // by family

	token uint64    // of the last term; 0 once it has been acknowledged or has ended
	began time.Time // when the last term did
	gone  time.Time // since when there is no leader; zero if there is one, or if that is not known
}

// queue is what was read of an election's queue.
type queue struct {
	ballots int
	held    bool
}

// The values of labels. All series of a candidate exist from the beginning, or a rate would miss the first event.
var (
	causes = []string{"lost", "failed", "resigned", "requested", "unfit", "stopped", "closed"}
	kinds  = []string{"failed", "denied", "unavailable", "unknown_outcome", "no_lease", "token_regressed", "other"}
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
			times: map[string]*distribution{
				Takeover: newDistribution(Takeover), WindingDown: newDistribution(WindingDown), Leaderless: newDistribution(Leaderless),
			},
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

// Queue notes how many ballots stand in an election, and whether an operator holds it.
func (s *Set) Queue(election string, ballots int, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(election).queue = &queue{ballots, held}
}

// Remove forgets an election. Its candidate and follower have ended.
func (s *Set) Remove(election string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.elections, election)
}

// Renewed returns a function for store.Options.Renewed, of a store with this name.
func (s *Set) Renewed(store string) func(time.Duration) {
	store = strings.ToValidUTF8(store, "\ufffd") // as labels are
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.renewals == nil {
		s.renewals = map[string]*distribution{}
	}
	d := s.renewals[store]
	if d == nil {
		d = newDistribution(Renewal)
		s.renewals[store] = d
	}
	return func(latency time.Duration) {
		s.mu.Lock()
		d.add(latency)
		s.mu.Unlock()
		s.observe(Renewal, store, latency)
	}
}

func (s *Set) observe(family, label string, t time.Duration) {
	if s.Observe != nil {
		s.Observe(family, label, t)
	}
}

// Event counts an event. It is for the Events of all candidates and followers.
func (s *Set) Event(event leadership.Event) {
	s.mu.Lock()
	family, t := s.of(event.Election).happened(event)
	s.mu.Unlock()
	if family != "" {
		s.observe(family, event.Election, t)
	}
}

// happened counts an event. It returns the duration that the event has measured, and whose it is, if there is one.
func (e *election) happened(event leadership.Event) (family string, t time.Duration) {
	switch event.Kind {
	case leadership.TermBegan:
		e.terms++
		e.token, e.began = event.Token, time.Now()
	case leadership.Acknowledged:
		if e.token == event.Token {
			e.token = 0
			family, t = Takeover, time.Since(e.began)
		}
	case leadership.RenewalOverdue:
		e.overdue++
	case leadership.TermEnded:
		e.ended[causeOf(event.Err)]++
		if e.token == event.Token {
			e.token = 0
			e.failed++
		}
	case leadership.BallotWithdrawn:
		family, t = WindingDown, event.After
	case leadership.LeaderChanged:
		if leaderless, known := e.leaderChanged(event.Leader); known {
			family, t = Leaderless, leaderless
		}
	case leadership.AttemptFailed:
		e.errors[kindOf(event.Err)]++
	}
	if family != "" {
		e.times[family].add(t)
	}
	return family, t
}

// leaderChanged counts a change, and returns the time without a leader that it has ended, if that is known. While the
// follower does not hear from the store, nothing is known of that time.
func (e *election) leaderChanged(leader leadership.Leader) (leaderless time.Duration, known bool) {
	e.changes++
	fresh := e.follower != nil && e.follower.Fresh()
	switch {
	case !fresh:
		e.gone = time.Time{}
	case leader.Revision == 0:
		e.gone = time.Now()
	case !e.gone.IsZero():
		leaderless, known = time.Since(e.gone), true
		e.gone = time.Time{}
	}
	return leaderless, known
}

func causeOf(err error) string {
	switch {
	case errors.Is(err, leadership.ErrFailed): // first: it wraps an error of the program's
		return "failed"
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
	case errors.Is(err, leadership.ErrFailed): // as above
		return "failed"
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

func newDistribution(family string) *distribution {
	bounds := families[family].Bounds
	return &distribution{Bounds: bounds, Counts: make([]uint64, len(bounds))}
}

func (d *distribution) add(t time.Duration) {
	seconds := t.Seconds()
	d.Count++
	d.Sum += seconds
	if i, _ := slices.BinarySearch(d.Bounds, seconds); i < len(d.Bounds) {
		d.Counts[i]++
	}
}

// histogram returns a copy.
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
