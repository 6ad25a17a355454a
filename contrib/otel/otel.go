// Package otel reports to OpenTelemetry what a process's candidates and followers are doing. It uses the API for metrics
// alone: the program chooses the SDK and the exporter.
//
//	r, err := otel.New(meters) // the program's metric.MeterProvider
//	defer r.Close()
//	st, err := store.Open(ctx, url, &store.Options{Renewed: r.Renewed("etcd")})
//	c, err := leadership.NewCandidate(st, "database/primary", "dbhost2:4567", &leadership.CandidateOptions{Events: r.Event})
//	r.Candidate(c)
//
// The attribute leadership.election is on all but leadership.renewal.duration, which has leadership.store:
//
//	leadership.candidate.status              up-down counter, 1 1 for what the candidate is doing: leadership.candidate.state
//	leadership.lease.remaining               gauge, s           0 if the candidate does not lead
//	leadership.term.count                    counter, {term}    terms that have begun
//	leadership.term.ended                    counter, {term}    by leadership.term.end.cause
//	leadership.takeover.duration             histogram, s       from the beginning of a term to its acknowledgement
//	leadership.wind_down.duration            histogram, s       from the end of a term until its ballot was gone
//	leadership.renewal.duration              histogram, s       from the request to the confirmation
//	leadership.renewal.overdue               counter, {event}   how often a renewal was overdue while leading
//	leadership.error.count                   counter, {error}   by error.type
//	leadership.follower.age                  gauge, s           how old the follower's knowledge is
//	leadership.follower.leaderless.duration  histogram, s       from one leader to the next
//
// The values of attributes are those of the labels of package status. What the clock decides is computed at each collection:
// it is right even in the first one of a process that was frozen. There are no spans: a term lasts for months.
package otel

import (
	"context"
	"errors"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/metrics"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// attributes are what Prometheus has as labels.
var attributes = map[string]attribute.Key{
	"election": "leadership.election",
	"state":    "leadership.candidate.state",
	"cause":    "leadership.term.end.cause",
	"kind":     "error.type",
	"store":    "leadership.store",
}

// Reporter reports to a meter. Its methods may be called from any number of goroutines. New makes one. A process needs one,
// for all its candidates, followers and stores.
type Reporter struct {
	set          metrics.Set
	observe      map[string]observeFunc             // by family; read only, as is times
	times        map[string]metric.Float64Histogram // by family
	registration metric.Registration
}

// observeFunc observes the value of a series.
type observeFunc func(metric.Observer, float64, metric.ObserveOption)

// New returns a reporter that knows of no candidate and no follower yet.
func New(meters metric.MeterProvider) (*Reporter, error) {
	m := maker{meter: meters.Meter("github.com/go-leadership/leadership/contrib/otel"), families: map[string]metrics.Family{}}
	for _, f := range metrics.Families() {
		m.families[f.Name] = f
	}
	r := &Reporter{
		observe: map[string]observeFunc{
			metrics.State:           m.upDownCounter(metrics.State, "leadership.candidate.status", "1"),
			metrics.LeaseRemaining:  m.gauge(metrics.LeaseRemaining, "leadership.lease.remaining", "s"),
			metrics.Terms:           m.counter(metrics.Terms, "leadership.term.count", "{term}"),
			metrics.TermsEnded:      m.counter(metrics.TermsEnded, "leadership.term.ended", "{term}"),
			metrics.RenewalsOverdue: m.counter(metrics.RenewalsOverdue, "leadership.renewal.overdue", "{event}"),
			metrics.Errors:          m.counter(metrics.Errors, "leadership.error.count", "{error}"),
			metrics.FollowerAge:     m.gauge(metrics.FollowerAge, "leadership.follower.age", "s"),
		},
		times: map[string]metric.Float64Histogram{
			metrics.Takeover:    m.histogram(metrics.Takeover, "leadership.takeover.duration"),
			metrics.WindingDown: m.histogram(metrics.WindingDown, "leadership.wind_down.duration"),
			metrics.Renewal:     m.histogram(metrics.Renewal, "leadership.renewal.duration"),
			metrics.Leaderless:  m.histogram(metrics.Leaderless, "leadership.follower.leaderless.duration"),
		},
	}
	if len(m.errs) > 0 {
		return nil, errors.Join(m.errs...)
	}
	r.set.Observe = func(family, label string, t time.Duration) {
		key := attributes[m.families[family].Labels[0]]
		r.times[family].Record(context.Background(), t.Seconds(), metric.WithAttributes(key.String(label)))
	}
	var err error
	r.registration, err = m.meter.RegisterCallback(r.collect, m.observables...)
	return r, err
}

// Candidate adds a candidate. It takes the place of an earlier one in the same election.
func (r *Reporter) Candidate(c *leadership.Candidate) { r.set.Candidate(c) }

// Follower adds a follower, which the program starts. It takes the place of an earlier one of the same election.
func (r *Reporter) Follower(f *leadership.Follower) { r.set.Follower(f) }

// Event counts and records an event. Make it the Events of all candidates and followers that the reporter knows, or call it
// in yours.
func (r *Reporter) Event(e leadership.Event) { r.set.Event(e) }

// Renewed returns a function for store.Options.Renewed that records renewals. The name is the attribute leadership.store:
// the address without a password.
func (r *Reporter) Renewed(store string) func(latency time.Duration) { return r.set.Renewed(store) }

// Close ends the reports of all but durations.
func (r *Reporter) Close() error { return r.registration.Unregister() }

// collect observes what is known now.
func (r *Reporter) collect(_ context.Context, o metric.Observer) error {
	for _, f := range r.set.Gather() {
		observe := r.observe[f.Name]
		if observe == nil {
			continue
		}
		for _, s := range f.Series {
			var list []attribute.KeyValue
			for i, label := range f.Labels {
				list = append(list, attributes[label].String(s.Labels[i]))
			}
			observe(o, s.Value, metric.WithAttributes(list...))
		}
	}
	return nil
}

// maker makes instruments, and collects errors.
type maker struct {
	meter       metric.Meter
	families    map[string]metrics.Family
	observables []metric.Observable
	errs        []error
}

func (m *maker) made(o metric.Observable, err error) {
	m.observables = append(m.observables, o)
	if err != nil {
		m.errs = append(m.errs, err)
	}
}

func (m *maker) counter(family, name, unit string) observeFunc {
	c, err := m.meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(m.families[family].Help))
	m.made(c, err)
	return func(o metric.Observer, v float64, attrs metric.ObserveOption) { o.ObserveInt64(c, int64(v), attrs) }
}

func (m *maker) upDownCounter(family, name, unit string) observeFunc {
	c, err := m.meter.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(m.families[family].Help))
	m.made(c, err)
	return func(o metric.Observer, v float64, attrs metric.ObserveOption) { o.ObserveInt64(c, int64(v), attrs) }
}

func (m *maker) gauge(family, name, unit string) observeFunc {
	g, err := m.meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(m.families[family].Help))
	m.made(g, err)
	return func(o metric.Observer, v float64, attrs metric.ObserveOption) { o.ObserveFloat64(g, v, attrs) }
}

func (m *maker) histogram(family, name string) metric.Float64Histogram {
	f := m.families[family]
	h, err := m.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(f.Help), metric.WithExplicitBucketBoundaries(f.Bounds...))
	if err != nil {
		m.errs = append(m.errs, err)
	}
	return h
}
