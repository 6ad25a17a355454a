// Package prom exports what a process's candidates and followers are doing to Prometheus, through the program's own registry.
//
//	c := prom.New()
//	prometheus.MustRegister(c)
//	st, err := store.Open(ctx, url, &store.Options{Renewed: c.Renewed("etcd")})
//	candidate, err := leadership.NewCandidate(st, "database/primary", "dbhost2:4567", &leadership.CandidateOptions{Events: c.Event})
//	c.Candidate(candidate)
//
// The series are those of /metrics of package
// status, which needs no client library. What the clock decides, such as leadership_is_leader, is computed at each scrape:
// it is right even in the first scrape of a process that was frozen.
//
// The directory has rules for alerts, alerts.yaml, and a dashboard for Grafana, dashboard.json.
package prom

import (
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/metrics"
	"github.com/prometheus/client_golang/prometheus"
)

// Collector is a collector for a registry. Its methods may be called from any number of goroutines. New makes one. A process
// needs one, for all its candidates, followers and stores.
type Collector struct {
	set   metrics.Set
	descs map[string]*prometheus.Desc // by family; read only
}

// New returns a collector that knows of no candidate and no follower yet.
func New() *Collector {
	c := &Collector{descs: map[string]*prometheus.Desc{}}
	for _, f := range metrics.Families() {
		c.descs[f.Name] = prometheus.NewDesc(f.Name, f.Help, f.Labels, nil)
	}
	return c
}

// Candidate adds a candidate. It takes the place of an earlier one in the same election.
func (c *Collector) Candidate(candidate *leadership.Candidate) { c.set.Candidate(candidate) }

// Follower adds a follower, which the program starts. It takes the place of an earlier one of the same election.
func (c *Collector) Follower(follower *leadership.Follower) { c.set.Follower(follower) }

// Event counts an event. Make it the Events of all candidates and followers that the collector knows, or call it in yours.
func (c *Collector) Event(e leadership.Event) { c.set.Event(e) }

// Renewed returns a function for store.Options.Renewed that measures renewals. The name is the label store: the address
// without a password.
func (c *Collector) Renewed(store string) func(latency time.Duration) { return c.set.Renewed(store) }

// Describe implements prometheus.Collector.
func (c *Collector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		descs <- desc
	}
}

// Collect implements prometheus.Collector. It sends nothing to the store.
func (c *Collector) Collect(series chan<- prometheus.Metric) {
	for _, f := range c.set.Gather() {
		for _, s := range f.Series {
			series <- c.metric(f, s)
		}
	}
}

func (c *Collector) metric(f metrics.Family, s metrics.Series) prometheus.Metric {
	desc := c.descs[f.Name]
	switch f.Kind {
	case metrics.HistogramKind:
		buckets := map[float64]uint64{}
		for _, b := range s.Histogram.Buckets {
			buckets[b.Bound] = b.Count
		}
		return prometheus.MustNewConstHistogram(desc, s.Histogram.Count, s.Histogram.Sum, buckets, s.Labels...)
	case metrics.Counter:
		return prometheus.MustNewConstMetric(desc, prometheus.CounterValue, s.Value, s.Labels...)
	}
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, s.Value, s.Labels...)
}
