package simulation_test

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

// TestMain checks that no test of the package left a goroutine behind: promise G7, for all of them.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the stores log outages
	goleak.VerifyTestMain(m)
}
