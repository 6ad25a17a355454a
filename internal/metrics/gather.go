package metrics

import (
	"maps"
	"slices"
	"time"

	"github.com/go-leadership/leadership"
)

// Kind is the kind of a family.
type Kind string

// The kinds, as Prometheus names them.
const (
	Counter       Kind = "counter"
	Gauge         Kind = "gauge"
	HistogramKind Kind = "histogram"
)

// Family is all series of one name.
type Family struct {
	Name, Help string
	Kind       Kind
	Labels     []string // the names of the labels
	Series     []Series
}

// Series is one series at the time of the call of Gather.
type Series struct {
	Labels    []string // the values of the labels
	Value     float64
	Histogram *Histogram // of a family of this kind
}

// Histogram is the value of a series of times.
type Histogram struct {
	Count   uint64
	Sum     float64  // seconds
	Buckets []Bucket // by rising bounds, without that for all times
}

// Bucket counts the times up to a bound.
type Bucket struct {
	Bound float64 // seconds
	Count uint64
}

// Gather returns all that is measured, as of now.
func (s *Set) Gather() []Family {
	g := gathering{families: map[string]*Family{}}
	s.mu.Lock()
	candidates, followers := map[string]*leadership.Candidate{}, map[string]*leadership.Follower{}
	for name, e := range s.elections {
		e.count(&g, name)
		candidates[name], followers[name] = e.candidate, e.follower
	}
	for store, d := range s.renewals {
		g.histogram("leadership_renewal_duration_seconds", "Time from the request to the confirmation of a renewal of the session.",
			"store", store, d)
	}
	s.mu.Unlock()
	for name, c := range candidates {
		if c != nil {
			g.candidate(name, c)
		}
		if f := followers[name]; f != nil {
			g.follower(name, f)
		}
	}
	return g.sorted()
}

// count gathers what was counted. The caller holds the set's mu.
func (e *election) count(g *gathering, name string) {
	if e.candidate != nil {
		g.counter("leadership_terms_total", "Terms that have begun.", name, e.terms)
		for _, cause := range causes {
			g.counter("leadership_terms_ended_total", "Terms that have ended, by cause.", name, e.ended[cause], "cause", cause)
		}
		g.counter("leadership_takeovers_failed_total", "Terms that ended without an acknowledgement.", name, e.failed)
		g.counter("leadership_renewals_overdue_total", "How often a renewal was overdue while leading.", name, e.overdue)
		g.histogram("leadership_takeover_duration_seconds", "Time from the beginning of a term to its acknowledgement.",
			"election", name, &e.takeover)
		g.histogram("leadership_winding_down_duration_seconds", "Time from the end of a term until its ballot was gone.",
			"election", name, &e.windingDown)
	}
	if e.follower != nil {
		g.counter("leadership_follower_changes_total", "Changes of the leader that the follower has seen.", name, e.changes)
		g.histogram("leadership_follower_leaderless_seconds", "Time without a leader, from one leader to the next.",
			"election", name, &e.leaderless)
	}
	if e.candidate != nil || e.follower != nil {
		for _, kind := range kinds {
			g.counter("leadership_errors_total", "Failures, by kind.", name, e.errors[kind], "kind", kind)
		}
	}
}

// gathering collects families.
type gathering struct{ families map[string]*Family }

func (g *gathering) add(name, help string, kind Kind, labels []string, s Series) {
	f := g.families[name]
	if f == nil {
		f = &Family{Name: name, Help: help, Kind: kind, Labels: labels}
		g.families[name] = f
	}
	f.Series = append(f.Series, s)
}

// labelled returns the names and the values of the labels of an election's series, and of another label if there is one.
func labelled(election string, more []string) (names, values []string) {
	names, values = []string{"election"}, []string{election}
	if len(more) > 0 {
		names, values = append(names, more[0]), append(values, more[1])
	}
	return names, values
}

func (g *gathering) counter(name, help, election string, value float64, more ...string) {
	labels, values := labelled(election, more)
	g.add(name, help, Counter, labels, Series{Labels: values, Value: value})
}

func (g *gathering) gauge(name, help, election string, value float64, more ...string) {
	labels, values := labelled(election, more)
	g.add(name, help, Gauge, labels, Series{Labels: values, Value: value})
}

func (g *gathering) histogram(name, help, label, value string, d *distribution) {
	g.add(name, help, HistogramKind, []string{label}, Series{Labels: []string{value}, Histogram: d.histogram()})
}

// candidate gathers what a candidate is doing now.
func (g *gathering) candidate(name string, c *leadership.Candidate) {
	s := c.Status()
	leads := s.State == leadership.TakingOver || s.State == leadership.Leading
	g.gauge("leadership_is_leader", "1 if the candidate leads, by its clock at this moment.", name, truth(leads))
	for state := leadership.Idle; state <= leadership.WindingDown; state++ {
		g.gauge("leadership_state", "1 for what the candidate is doing.", name, truth(s.State == state), "state", state.String())
	}
	g.gauge("leadership_state_since_timestamp_seconds", "Since when the candidate does that, as Unix time.",
		name, float64(s.Since.UnixMilli())/1e3)
	g.gauge("leadership_lease_remaining_seconds", "Time that is left of the leader's lease; 0 if it does not lead.",
		name, s.Remaining.Seconds())
	g.gauge("leadership_session_ttl_seconds", "TTL of the session of the candidate's store.", name, s.TTL.Seconds())
}

// follower gathers what a follower knows now.
func (g *gathering) follower(name string, f *leadership.Follower) {
	_, led := f.Leader()
	g.gauge("leadership_follower_has_leader", "1 if the follower knows of a leader.", name, truth(led))
	if asOf := f.AsOf(); !asOf.IsZero() {
		g.gauge("leadership_follower_age_seconds", "How old the follower's knowledge is.", name, time.Since(asOf).Seconds())
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// sorted returns the families by name, and the series of each by their labels.
func (g *gathering) sorted() []Family {
	var list []Family
	for _, name := range slices.Sorted(maps.Keys(g.families)) {
		f := g.families[name]
		slices.SortFunc(f.Series, func(a, b Series) int { return slices.Compare(a.Labels, b.Labels) })
		list = append(list, *f)
	}
	return list
}
