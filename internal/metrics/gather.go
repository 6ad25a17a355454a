package metrics

import (
	"slices"
	"time"

	"github.com/go-leadership/leadership"
)

// Gather returns all that is measured, as of now.
func (s *Set) Gather() []Family {
	g := gathering{}
	s.mu.Lock()
	candidates, followers := map[string]*leadership.Candidate{}, map[string]*leadership.Follower{}
	for name, e := range s.elections {
		e.count(g, name)
		candidates[name], followers[name] = e.candidate, e.follower
	}
	for store, d := range s.renewals {
		g.times(Renewal, store, d)
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
	list := sorted(g)
	for _, f := range list {
		slices.SortFunc(f.Series, func(a, b Series) int { return slices.Compare(a.Labels, b.Labels) })
	}
	return list
}

// count gathers what was counted. The caller holds the set's mu.
func (e *election) count(g gathering, name string) {
	if e.candidate != nil {
		g.value(Terms, e.terms, name)
		for _, cause := range causes {
			g.value(TermsEnded, e.ended[cause], name, cause)
		}
		g.value(TakeoversFailed, e.failed, name)
		g.value(RenewalsOverdue, e.overdue, name)
		g.times(Takeover, name, e.times[Takeover])
		g.times(WindingDown, name, e.times[WindingDown])
	}
	if e.follower != nil {
		g.value(FollowerChanges, e.changes, name)
		g.times(Leaderless, name, e.times[Leaderless])
	}
	if e.queue != nil {
		g.value(Ballots, float64(e.queue.ballots), name)
		g.value(Held, truth(e.queue.held), name)
	}
	if e.candidate != nil || e.follower != nil {
		for _, kind := range kinds {
			g.value(Errors, e.errors[kind], name, kind)
		}
	}
}

// gathering collects families that have a series, by name.
type gathering map[string]Family

func (g gathering) add(family string, s Series) {
	f, ok := g[family]
	if !ok {
		f = families[family]
	}
	f.Series = append(f.Series, s)
	g[family] = f
}

func (g gathering) value(family string, value float64, labels ...string) {
	g.add(family, Series{Labels: labels, Value: value})
}

func (g gathering) times(family, label string, d *distribution) {
	g.add(family, Series{Labels: []string{label}, Histogram: d.histogram()})
}

// candidate gathers what a candidate is doing now.
func (g gathering) candidate(name string, c *leadership.Candidate) {
	s := c.Status()
	g.value(IsLeader, truth(s.State == leadership.TakingOver || s.State == leadership.Leading), name)
	for state := leadership.Idle; state <= leadership.WindingDown; state++ {
		g.value(State, truth(s.State == state), name, state.String())
	}
	g.value(StateSince, float64(s.Since.UnixMilli())/1e3, name)
	g.value(LeaseRemaining, s.Remaining.Seconds(), name)
	g.value(SessionTTL, s.TTL.Seconds(), name)
}

// follower gathers what a follower knows now.
func (g gathering) follower(name string, f *leadership.Follower) {
	_, led := f.Leader()
	g.value(FollowerHasLeader, truth(led), name)
	if asOf := f.AsOf(); !asOf.IsZero() {
		g.value(FollowerAge, time.Since(asOf).Seconds(), name)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
