package prom_test

import (
	"context"
	"fmt"
	"log"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/contrib/prom"
	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/memory"
	"github.com/prometheus/client_golang/prometheus"
)

// A program that leads, and has the metrics in its registry. promhttp.Handler serves the registry.
func Example() {
	metrics := prom.New()
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)

	ctx := context.Background()
	st, err := store.Open(ctx, "memory://prom?ttl=10s", &store.Options{Renewed: metrics.Renewed("memory")})
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	c, err := leadership.NewCandidate(st, "database/primary", "dbhost2:4567", &leadership.CandidateOptions{Events: metrics.Event})
	if err != nil {
		log.Fatal(err)
	}
	metrics.Candidate(c)
	defer c.Stop()
	term, err := c.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}

	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "leadership_is_leader" {
			fmt.Println(f.GetName(), f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	if err := term.Withdraw(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: leadership_is_leader 1
}
