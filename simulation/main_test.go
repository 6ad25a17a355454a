package simulation_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain checks that no test of the package left a goroutine behind: promise G7, for all of them.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
