package prom_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/contrib/prom"
	"github.com/go-leadership/leadership/internal/metrics"
	"github.com/go-leadership/leadership/status"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ttl      = 12 * time.Second
	election = "database/primary"
)

// world is a candidate and a follower in virtual time, and the two that show them.
type world struct {
	*testing.T
	*prom.Collector
	status   *status.Handler
	registry *prometheus.Registry
	service  *memory.Service
	store    *memory.Store
}

func virtual(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, Collector: prom.New(), status: status.New(status.Config{}), registry: prometheus.NewPedanticRegistry(), service: memory.NewService()}
		require.NoError(t, w.registry.Register(w.Collector))
		own, other := w.Renewed("mem\"\\\n\xff"), w.status.Renewed("mem\"\\\n\xff")
		var err error
		w.store, err = memory.Open(w.service, &memory.Config{TTL: ttl, Renewed: func(d time.Duration) { own(d); other(d) }})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, w.store.Close()) })
		test(w)
	})
}

func (w *world) events(e leadership.Event) {
	w.Event(e)
	w.status.Event(e)
}

func (w *world) candidate(election string) *leadership.Candidate {
	w.Helper()
	c, err := leadership.NewCandidate(w.store, election, "dbhost2:4567", &leadership.CandidateOptions{Events: w.events})
	require.NoError(w, err)
	w.Candidate(c)
	w.status.Candidate(c)
	return c
}

// follow follows the election until the test ends.
func (w *world) follow() {
	w.Helper()
	f, err := leadership.NewFollower(w.store, election, &leadership.FollowerOptions{Events: w.events})
	require.NoError(w, err)
	w.Follower(f)
	w.status.Follower(f)
	f.Start()
	w.Cleanup(func() { f.Stop(); <-f.Done() })
	synctest.Wait()
}

func (w *world) gather() map[string]*dto.MetricFamily {
	w.Helper()
	list, err := w.registry.Gather()
	require.NoError(w, err)
	families := map[string]*dto.MetricFamily{}
	for _, f := range list {
		families[f.GetName()] = f
	}
	return families
}

// compare requires that the registry and /metrics of package status show the same, in words and numbers.
func (w *world) compare() {
	w.Helper()
	answer := httptest.NewRecorder()
	w.status.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	shown, err := parser.TextToMetricFamilies(answer.Body)
	require.NoError(w, err)
	own := w.gather()
	require.Len(w, shown, len(own))
	for name, f := range own {
		require.Equal(w, text(w, f), text(w, shown[name]), name)
	}
}

// text returns a family in the text format, with the labels of each series in order.
func text(t require.TestingT, f *dto.MetricFamily) string {
	for _, series := range f.GetMetric() {
		slices.SortFunc(series.Label, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
	}
	var b strings.Builder
	_, err := expfmt.MetricFamilyToText(&b, f)
	require.NoError(t, err)
	return b.String()
}

// TestSeriesAreThoseOfStatus: in each state of a candidate, and of what a follower knows.
func TestSeriesAreThoseOfStatus(t *testing.T) {
	virtual(t, func(w *world) {
		c := w.candidate(election)
		w.compare()
		w.follow()
		w.compare()
		for range 3 {
			term, err := c.Campaign(context.Background())
			require.NoError(w, err)
			time.Sleep(3 * time.Second)
			synctest.Wait()
			w.compare()
			require.NoError(w, term.Acknowledge(context.Background()))
			time.Sleep(7 * time.Second)
			synctest.Wait()
			w.compare()
			require.Equal(w, 1.0, w.gather()[metrics.IsLeader].Metric[0].GetGauge().GetValue())
			c.Resign()
			time.Sleep(700 * time.Millisecond)
			synctest.Wait()
			w.compare()
			require.NoError(w, term.Withdraw(context.Background()))
			synctest.Wait()
			w.compare()
		}
		for _, err := range []error{store.ErrDenied, store.ErrUnavailable, store.ErrUnknownOutcome, errors.New("else")} {
			w.events(leadership.Event{Kind: leadership.AttemptFailed, Election: election, Err: err})
		}
		term, err := c.Campaign(context.Background())
		require.NoError(w, err)
		w.store.Faults().Cut()
		<-term.Context().Done()
		synctest.Wait()
		w.compare()
		w.store.Faults().Heal()
		_ = term.Withdraw(context.Background())
		synctest.Wait()
		w.compare()
		require.Len(w, w.gather(), len(metrics.Families()), "no family was left out")
		for _, name := range []string{metrics.Takeover, metrics.WindingDown, metrics.Leaderless, metrics.Renewal} {
			require.Positive(w, w.gather()[name].Metric[0].GetHistogram().GetSampleCount(), name)
		}
	})
}

// TestFrozen: nothing has run since the lease was over, and the first scrape says so.
func TestFrozen(t *testing.T) {
	virtual(t, func(w *world) {
		term, err := w.candidate(election).Campaign(context.Background())
		require.NoError(w, err)
		leads := func() float64 { return w.gather()[metrics.IsLeader].Metric[0].GetGauge().GetValue() }
		require.Equal(w, 1.0, leads())
		w.store.Faults().Cut()
		time.Sleep(term.Remaining())
		require.Equal(w, 0.0, leads())
		synctest.Wait()
		require.Equal(w, 0.0, leads())
		w.store.Faults().Heal()
		_ = term.Withdraw(context.Background())
	})
}

// TestLint: the names and words are as Prometheus asks for.
func TestLint(t *testing.T) {
	virtual(t, func(w *world) {
		w.candidate(election)
		w.follow()
		require.Len(w, w.gather(), len(metrics.Families()))
		problems, err := testutil.GatherAndLint(w.registry)
		require.NoError(w, err)
		require.Empty(w, problems)
	})
}

// TestRegistry: the collector shares a registry with others. A second one is refused when it is registered, not at each
// scrape.
func TestRegistry(t *testing.T) {
	virtual(t, func(w *world) {
		requests := prometheus.NewCounter(prometheus.CounterOpts{Name: "requests_total", Help: "Requests."})
		w.registry.MustRegister(requests)
		requests.Inc()
		w.candidate(election)
		w.candidate("other")
		require.Equal(w, 1.0, w.gather()["requests_total"].Metric[0].GetCounter().GetValue())
		require.Len(w, w.gather()[metrics.IsLeader].Metric, 2)

		var already prometheus.AlreadyRegisteredError
		require.ErrorAs(w, w.registry.Register(prom.New()), &already)
		require.True(w, w.registry.Unregister(w.Collector))
		require.Len(w, w.gather(), 1)
	})
}

// TestTenants: two collectors share a registry if each has a label of its own.
func TestTenants(t *testing.T) {
	virtual(t, func(w *world) {
		registry := prometheus.NewPedanticRegistry()
		a, b := w.candidate(election), prom.New()
		b.Candidate(a)
		for tenant, c := range map[string]*prom.Collector{"a": w.Collector, "b": b} {
			require.NoError(w, prometheus.WrapRegistererWith(prometheus.Labels{"tenant": tenant}, registry).Register(c))
		}
		n, err := testutil.GatherAndCount(registry, metrics.IsLeader)
		require.NoError(w, err)
		require.Equal(w, 2, n)
	})
}

// TestNothingIsKnown: a collector without a candidate has no series.
func TestNothingIsKnown(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(prom.New())
	list, err := registry.Gather()
	require.NoError(t, err)
	require.Empty(t, list)
}

// TestConcurrently: events are counted while several servers scrape. No scrape sees a counter or a histogram go back.
func TestConcurrently(t *testing.T) {
	virtual(t, func(w *world) {
		w.candidate(election)
		renewed := w.Renewed("memory")
		var events, scrapes sync.WaitGroup
		const each = 200
		for range 4 {
			events.Go(func() {
				for range each {
					w.Event(leadership.Event{Kind: leadership.TermBegan, Election: election, Token: 1})
					w.Event(leadership.Event{Kind: leadership.BallotWithdrawn, Election: election, Token: 1, After: time.Second})
					w.Event(leadership.Event{Kind: leadership.AttemptFailed, Election: election, Err: store.ErrDenied})
					renewed(time.Millisecond)
				}
			})
		}
		ended := make(chan struct{})
		for range 2 {
			scrapes.Go(func() {
				terms, windingDown := 0.0, uint64(0)
				for {
					select {
					case <-ended:
						return
					default:
					}
					families := w.gather()
					n, h := families[metrics.Terms].Metric[0].GetCounter().GetValue(), families[metrics.WindingDown].Metric[0].GetHistogram()
					assert.GreaterOrEqual(w, n, terms)
					assert.GreaterOrEqual(w, h.GetSampleCount(), windingDown)
					assert.Equal(w, float64(h.GetSampleCount()), h.GetSampleSum())
					terms, windingDown = n, h.GetSampleCount()
				}
			})
		}
		events.Wait()
		close(ended)
		scrapes.Wait()
		families := w.gather()
		require.Equal(w, 4.0*each, families[metrics.Terms].Metric[0].GetCounter().GetValue())
		require.Equal(w, uint64(4*each), families[metrics.WindingDown].Metric[0].GetHistogram().GetSampleCount())
	})
}
