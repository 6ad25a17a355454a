package otel_test

import (
	"context"
	"fmt"
	"log"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/contrib/otel"
	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/memory"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// A program that leads, and reports to the SDK that it has chosen. It would have a periodic reader with an exporter.
func Example() {
	reader := sdk.NewManualReader()
	meters := sdk.NewMeterProvider(sdk.WithReader(reader))
	ctx := context.Background()
	defer meters.Shutdown(ctx)
	reporter, err := otel.New(meters)
	if err != nil {
		log.Fatal(err)
	}
	defer reporter.Close()

	st, err := store.Open(ctx, "memory://otel?ttl=10s", &store.Options{Renewed: reporter.Renewed("memory")})
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	c, err := leadership.NewCandidate(st, "database/primary", "dbhost2:4567", &leadership.CandidateOptions{Events: reporter.Event})
	if err != nil {
		log.Fatal(err)
	}
	reporter.Candidate(c)
	term, err := c.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := term.Withdraw(ctx); err != nil {
		log.Fatal(err)
	}
	c.Stop()
	<-c.Done() // all hooks have been called

	var report metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &report); err != nil {
		log.Fatal(err)
	}
	for _, m := range report.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "leadership.term.count" {
			fmt.Println(m.Name, m.Unit, sum.DataPoints[0].Value)
		}
	}
	// Output: leadership.term.count {term} 1
}
