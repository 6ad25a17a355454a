package otel_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/contrib/otel"
	"github.com/go-leadership/leadership/internal/metrics"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ttl      = 12 * time.Second
	election = "database/primary"
)

// world is a candidate in virtual time, and the reporter that shows it.
type world struct {
	*testing.T
	*otel.Reporter
	reader *sdk.ManualReader
	store  *memory.Store
	c      *leadership.Candidate
}

func virtual(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, reader: sdk.NewManualReader()}
		provider := sdk.NewMeterProvider(sdk.WithReader(w.reader))
		t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.Background())) })
		var err error
		w.Reporter, err = otel.New(provider)
		require.NoError(t, err)
		w.store, err = memory.Open(memory.NewService(), &memory.Config{TTL: ttl, Renewed: w.Renewed("memory")})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, w.store.Close()) })
		w.c, err = leadership.NewCandidate(w.store, election, "dbhost2:4567", &leadership.CandidateOptions{Events: w.Event})
		require.NoError(t, err)
		w.Candidate(w.c)
		test(w)
	})
}

// follow follows the election until the test ends.
func (w *world) follow() {
	w.Helper()
	f, err := leadership.NewFollower(w.store, election, &leadership.FollowerOptions{Events: w.Event})
	require.NoError(w, err)
	w.Follower(f)
	f.Start()
	w.Cleanup(func() { f.Stop(); <-f.Done() })
	synctest.Wait()
}

// collect returns what the reader is told, by name.
func (w *world) collect() map[string]metricdata.Metrics {
	w.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(w, w.reader.Collect(context.Background(), &all))
	found := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		require.Equal(w, "github.com/go-leadership/leadership/contrib/otel", scope.Scope.Name)
		for _, m := range scope.Metrics {
			found[m.Name] = m
		}
	}
	return found
}

// values returns the values of an instrument by attributes, of a histogram the counts.
func (w *world) values(name string) map[string]float64 {
	w.Helper()
	values := map[string]float64{}
	put := func(attrs attribute.Set, v float64) { values[attrs.Encoded(attribute.DefaultEncoder())] = v }
	switch data := w.collect()[name].Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			put(p.Attributes, float64(p.Value))
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			put(p.Attributes, p.Value)
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			put(p.Attributes, float64(p.Count))
		}
	}
	return values
}

// has checks the value of an instrument for the election, with another attribute if one is given.
func (w *world) has(name string, want float64, more ...string) {
	w.Helper()
	key := strings.Join(append(more, "leadership.election="+election), ",")
	values := w.values(name)
	if _, ok := values[key]; !ok { // attributes are in their order
		key = strings.Join(append([]string{"leadership.election=" + election}, more...), ",")
	}
	require.Contains(w, values, key, name)
	require.InDelta(w, want, values[key], 1e-6, name)
}

func pass(d time.Duration) { time.Sleep(d); synctest.Wait() }

// TestInstruments: names, units and kinds are a promise.
func TestInstruments(t *testing.T) {
	virtual(t, func(w *world) {
		w.follow()
		for range 2 {
			term, err := w.c.Campaign(context.Background())
			require.NoError(w, err)
			require.NoError(w, term.Acknowledge(context.Background()))
			pass(time.Second)
			require.NoError(w, term.Withdraw(context.Background()))
			synctest.Wait()
		}
		units := map[string]string{}
		for name, m := range w.collect() {
			kind := ""
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				kind = "up-down counter"
				if data.IsMonotonic {
					kind = "counter"
				}
			case metricdata.Gauge[float64]:
				kind = "gauge"
			case metricdata.Histogram[float64]:
				kind = "histogram"
			}
			require.NotEmpty(w, m.Description)
			units[name] = kind + ", " + m.Unit
		}
		require.Equal(w, map[string]string{
			"leadership.candidate.status":             "up-down counter, 1",
			"leadership.lease.remaining":              "gauge, s",
			"leadership.term.count":                   "counter, {term}",
			"leadership.term.ended":                   "counter, {term}",
			"leadership.takeover.duration":            "histogram, s",
			"leadership.wind_down.duration":           "histogram, s",
			"leadership.renewal.duration":             "histogram, s",
			"leadership.renewal.overdue":              "counter, {event}",
			"leadership.error.count":                  "counter, {error}",
			"leadership.follower.age":                 "gauge, s",
			"leadership.follower.leaderless.duration": "histogram, s",
		}, units)
		for _, f := range metrics.Families() {
			if f.Name == metrics.Takeover {
				takeover := w.collect()["leadership.takeover.duration"].Data.(metricdata.Histogram[float64])
				require.Equal(w, f.Bounds, takeover.DataPoints[0].Bounds)
			}
		}
	})
}

// TestCandidate follows a candidate through its states.
func TestCandidate(t *testing.T) {
	virtual(t, func(w *world) {
		w.state("idle")
		w.has("leadership.term.count", 0)
		w.has("leadership.term.ended", 0, "leadership.term.end.cause=lost")
		w.has("leadership.error.count", 0, "error.type=denied")
		w.has("leadership.lease.remaining", 0)
		term, err := w.c.Campaign(context.Background())
		require.NoError(w, err)
		pass(2 * time.Second)
		w.state("taking_over")
		w.has("leadership.term.count", 1)
		require.Empty(w, w.values("leadership.takeover.duration"))
		require.NoError(w, term.Acknowledge(context.Background()))
		synctest.Wait()
		w.state("leading")
		w.has("leadership.takeover.duration", 1)
		sum := w.collect()["leadership.takeover.duration"].Data.(metricdata.Histogram[float64]).DataPoints[0].Sum
		require.Equal(w, 2.0, sum)
		w.has("leadership.lease.remaining", term.Remaining().Seconds())
		w.c.Resign()
		pass(3 * time.Second)
		w.state("winding_down")
		w.has("leadership.term.ended", 1, "leadership.term.end.cause=resigned")
		require.NoError(w, term.Withdraw(context.Background()))
		synctest.Wait()
		w.has("leadership.wind_down.duration", 1)
		require.Equal(w, 3.0, w.collect()["leadership.wind_down.duration"].Data.(metricdata.Histogram[float64]).DataPoints[0].Sum)
		w.Event(leadership.Event{Kind: leadership.AttemptFailed, Election: election, Err: store.ErrDenied})
		w.has("leadership.error.count", 1, "error.type=denied")
		require.Positive(w, w.values("leadership.renewal.duration")["leadership.store=memory"])

		term, err = w.c.Campaign(context.Background())
		require.NoError(w, err)
		w.store.Faults().Cut()
		time.Sleep(term.Remaining()) // nothing has noticed yet that the lease is over
		w.has("leadership.lease.remaining", 0)
		w.state("winding_down")
		synctest.Wait()
		w.has("leadership.renewal.overdue", 1)
		w.store.Faults().Heal()
		_ = term.Withdraw(context.Background())
	})
}

// state requires that the candidate is in that state, and in no other.
func (w *world) state(want string) {
	w.Helper()
	n := 0
	for state := leadership.Idle; state <= leadership.WindingDown; state++ {
		value := 0.0
		if state.String() == want {
			value = 1
		}
		w.has("leadership.candidate.status", value, "leadership.candidate.state="+state.String())
		n++
	}
	require.Len(w, w.values("leadership.candidate.status"), n)
}

func TestFollower(t *testing.T) {
	virtual(t, func(w *world) {
		w.follow()
		w.has("leadership.follower.age", 0)
		for range 2 {
			term, err := w.c.Campaign(context.Background())
			require.NoError(w, err)
			require.NoError(w, term.Acknowledge(context.Background()))
			synctest.Wait()
			require.NoError(w, term.Withdraw(context.Background()))
			pass(2 * time.Second)
		}
		w.has("leadership.follower.leaderless.duration", 1)
		w.store.Faults().Cut()
		pass(2 * ttl)
		require.Greater(w, w.values("leadership.follower.age")["leadership.election="+election], ttl.Seconds())
		w.store.Faults().Heal()
	})
}

// TestClose: nothing is observed after it.
func TestClose(t *testing.T) {
	virtual(t, func(w *world) {
		require.NotEmpty(w, w.values("leadership.candidate.status"))
		require.NoError(w, w.Close())
		require.Empty(w, w.values("leadership.candidate.status"))
		require.NoError(w, w.Close())
	})
}

// TestLinksTheAPIAlone: the program chooses the SDK.
func TestLinksTheAPIAlone(t *testing.T) {
	output, err := exec.Command("go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	for _, linked := range strings.Fields(string(output)) {
		require.NotContains(t, linked, "go.opentelemetry.io/otel/sdk")
	}
	require.Contains(t, string(output), "go.opentelemetry.io/otel/metric\n")
}
