package metrics

import (
	"slices"
	"strings"
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
	Labels     []string  // the names of the labels
	Bounds     []float64 // of the buckets of a histogram: upper, rising, in seconds, without that for all times
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
	Buckets []Bucket // one for each bound
}

// Bucket counts the times up to a bound.
type Bucket struct {
	Bound float64 // seconds
	Count uint64
}

// The names of the families.
const (
	IsLeader          = "leadership_is_leader"
	State             = "leadership_state"
	StateSince        = "leadership_state_since_timestamp_seconds"
	LeaseRemaining    = "leadership_lease_remaining_seconds"
	SessionTTL        = "leadership_session_ttl_seconds"
	Terms             = "leadership_terms_total"
	TermsEnded        = "leadership_terms_ended_total"
	TakeoversFailed   = "leadership_takeovers_failed_total"
	RenewalsOverdue   = "leadership_renewals_overdue_total"
	Takeover          = "leadership_takeover_duration_seconds"
	WindingDown       = "leadership_winding_down_duration_seconds"
	Renewal           = "leadership_renewal_duration_seconds"
	Errors            = "leadership_errors_total"
	FollowerHasLeader = "leadership_follower_has_leader"
	FollowerAge       = "leadership_follower_age_seconds"
	FollowerChanges   = "leadership_follower_changes_total"
	Leaderless        = "leadership_follower_leaderless_seconds"

	Ballots = "leadership_ballots"
	Held    = "leadership_held"
)

// The bounds of buckets.
var (
	workBounds    = []float64{.001, .01, .1, .5, 1, 5, 10, 30, 60, 300}
	renewalBounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	gapBounds     = []float64{.001, .005, .01, .05, .1, .5, 1, 2.5, 5, 10, 20, 30, 60}
)

// families are all families, by name.
var families = func(list ...Family) map[string]Family {
	m := map[string]Family{}
	for _, f := range list {
		m[f.Name] = f
	}
	return m
}(
	gauge(IsLeader, "1 if the candidate leads, by its clock at this moment."),
	gauge(State, "1 for what the candidate is doing.", "state"),
	gauge(StateSince, "Since when the candidate does that, as Unix time."),
	gauge(LeaseRemaining, "Time that is left of the leader's lease; 0 if it does not lead."),
	gauge(SessionTTL, "TTL of the session of the candidate's store."),
	counter(Terms, "Terms that have begun."),
	counter(TermsEnded, "Terms that have ended, by cause.", "cause"),
	counter(TakeoversFailed, "Terms that ended without an acknowledgement."),
	counter(RenewalsOverdue, "How often a renewal was overdue while leading."),
	histogram(Takeover, "Time from the beginning of a term to its acknowledgement.", workBounds, "election"),
	histogram(WindingDown, "Time from the end of a term until its ballot was gone.", workBounds, "election"),
	histogram(Renewal, "Time from the request to the confirmation of a renewal of the session.", renewalBounds, "store"),
	counter(Errors, "Failures, by kind.", "kind"),
	gauge(FollowerHasLeader, "1 if the follower knows of a leader."),
	gauge(FollowerAge, "How old the follower's knowledge is."),
	counter(FollowerChanges, "Changes of the leader that the follower has seen."),
	histogram(Leaderless, "Time without a leader, from one leader to the next.", gapBounds, "election"),
	gauge(Ballots, "Ballots that stood when the queue was read last."),
	gauge(Held, "1 if an operator held the election when the queue was read last."),
)

func gauge(name, help string, more ...string) Family {
	return Family{Name: name, Help: help, Kind: Gauge, Labels: append([]string{"election"}, more...)}
}

func counter(name, help string, more ...string) Family {
	return Family{Name: name, Help: help, Kind: Counter, Labels: append([]string{"election"}, more...)}
}

func histogram(name, help string, bounds []float64, label string) Family {
	return Family{Name: name, Help: help, Kind: HistogramKind, Labels: []string{label}, Bounds: bounds}
}

// Families returns the families of candidates and followers by name, without series.
func Families() []Family {
	return slices.DeleteFunc(sorted(families), func(f Family) bool { return f.Name == Ballots || f.Name == Held })
}

// QueueFamilies returns the families of queues. They cost reads of the store: leadership serve alone has them.
func QueueFamilies() []Family { return []Family{families[Ballots], families[Held]} }

// sorted returns families by name.
func sorted(m map[string]Family) []Family {
	list := make([]Family, 0, len(m))
	for _, f := range m {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b Family) int { return strings.Compare(a.Name, b.Name) })
	return list
}
