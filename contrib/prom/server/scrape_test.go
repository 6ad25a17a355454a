package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/contrib/prom"
	"github.com/go-leadership/leadership/internal/metrics"
	"github.com/go-leadership/leadership/status"
	"github.com/go-leadership/leadership/store/memory"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"
)

const election = "database/primary"

// process is a candidate that leads, and a follower, as a program has them: with /metrics of package status and with
// package prom.
type process struct {
	*leadership.Candidate
	status, prom *httptest.Server
}

func newProcess(t *testing.T) *process {
	t.Helper()
	h, collector, registry := status.New(status.Config{}), prom.New(), client.NewRegistry()
	registry.MustRegister(collector)
	renewed, other := h.Renewed("memory"), collector.Renewed("memory")
	st, err := memory.Open(memory.NewService(), &memory.Config{TTL: 12 * time.Second, Renewed: func(d time.Duration) { renewed(d); other(d) }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })

	events := func(e leadership.Event) { h.Event(e); collector.Event(e) }
	c, err := leadership.NewCandidate(st, election, "dbhost2:4567", &leadership.CandidateOptions{Events: events})
	require.NoError(t, err)
	f, err := leadership.NewFollower(st, election, &leadership.FollowerOptions{Events: events})
	require.NoError(t, err)
	h.Candidate(c)
	h.Follower(f)
	collector.Candidate(c)
	collector.Follower(f)
	f.Start()
	t.Cleanup(func() { f.Stop(); <-f.Done() })
	ended := make(chan error, 1)
	go func() {
		ended <- c.Run(context.Background(), func(ctx context.Context, term *leadership.Term) error {
			if err := term.Acknowledge(ctx); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		})
	}()
	t.Cleanup(func() { c.Stop(); require.NoError(t, <-ended) })

	p := &process{c, httptest.NewServer(h), httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))}
	t.Cleanup(p.status.Close)
	t.Cleanup(p.prom.Close)
	return p
}

// TestCheckMetrics: promtool has nothing to say about /metrics.
func TestCheckMetrics(t *testing.T) {
	p := newProcess(t)
	for name, server := range map[string]*httptest.Server{"status": p.status, "prom": p.prom} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/metrics", nil)
		require.NoError(t, err)
		answer, err := server.Client().Do(request)
		require.NoError(t, err)
		said, err := promtool(t, answer.Body, "check", "metrics")
		require.NoError(t, answer.Body.Close())
		require.NoError(t, err, "%s: %s", name, said)
		require.Empty(t, said, name)
	}
}

// TestScrape: a server scrapes package status and package prom, and gets the same series from both. It takes the rules, an
// alert follows what happens, and each panel of the dashboard has something to show.
func TestScrape(t *testing.T) {
	process := newProcess(t)
	rules, err := filepath.Abs("../alerts.yaml")
	require.NoError(t, err)
	server := start(t, fmt.Sprintf(`
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [%q]
scrape_configs:
  - {job_name: status, static_configs: [{targets: [%q]}]}
  - {job_name: prom, static_configs: [{targets: [%q]}]}
`, rules, process.status.Listener.Addr(), process.prom.Listener.Addr()))

	eventually(t, "both targets show the leader", func(ctx context.Context) (bool, error) {
		leaders, err := server.query(ctx, `leadership_is_leader{election="`+election+`"} == 1`)
		return len(leaders) == 2, err
	})
	series := func(ctx context.Context, job string) []string {
		found, err := server.query(ctx, `{__name__=~"leadership_.*",job="`+job+`"}`)
		require.NoError(t, err)
		list := make([]string, 0, len(found))
		for _, s := range found {
			delete(s, "job")
			delete(s, "instance")
			list = append(list, fmt.Sprint(s))
		}
		slices.Sort(list)
		return list
	}
	eventually(t, "both have all series", func(ctx context.Context) (bool, error) {
		own := series(ctx, "prom")
		text := strings.Join(own, "\n")
		for _, f := range metrics.Families() {
			if !strings.Contains(text, "__name__:"+f.Name) {
				return false, fmt.Errorf("no %s", f.Name)
			}
		}
		return slices.Equal(own, series(ctx, "status")), nil
	})

	for _, expr := range dashboard(t) {
		_, err := server.query(t.Context(), expr)
		require.NoError(t, err, expr)
		if strings.HasSuffix(expr, "> 0") { // shows failures only
			continue
		}
		eventually(t, expr, func(ctx context.Context) (bool, error) {
			found, err := server.query(ctx, expr)
			return len(found) > 0, err
		})
	}

	eventually(t, "all rules are evaluated", func(ctx context.Context) (bool, error) {
		var data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError, State string }
			}
		}
		if err := server.get(ctx, "/api/v1/rules", nil, &data); err != nil || len(data.Groups) != 1 {
			return false, err
		}
		for _, rule := range data.Groups[0].Rules {
			if rule.Health != "ok" {
				return false, fmt.Errorf("%s: %s %s", rule.Name, rule.Health, rule.LastError)
			}
		}
		return true, nil
	})
	pending := func(ctx context.Context) ([]map[string]string, error) {
		return server.query(ctx, `ALERTS{alertname="LeadershipNoLeader",alertstate="pending"}`)
	}
	eventually(t, "no alert is on its way", func(ctx context.Context) (bool, error) {
		found, err := pending(ctx)
		return len(found) == 0, err
	})
	process.Stop()
	eventually(t, "the alert is on its way", func(ctx context.Context) (bool, error) {
		found, err := pending(ctx)
		return len(found) == 1 && found[0]["election"] == election, err
	})
}

// dashboard returns the expressions of the dashboard, as Grafana sends them.
func dashboard(t *testing.T) (list []string) {
	t.Helper()
	text, err := os.ReadFile("../dashboard.json")
	require.NoError(t, err)
	var d struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	require.NoError(t, json.Unmarshal(text, &d))
	variables := strings.NewReplacer("$election", ".*", "$__rate_interval", "1m", "$__range", "6h")
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			list = append(list, variables.Replace(target.Expr))
		}
	}
	require.NotEmpty(t, list)
	return list
}
