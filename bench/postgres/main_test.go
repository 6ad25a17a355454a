package postgres

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the benchmarks or, if a benchmark has started this process, the holder.
func TestMain(m *testing.M) {
	if _, ok := os.LookupEnv(holderContender); ok {
		if err := hold(); err != nil {
			fmt.Fprintln(os.Stderr, "holder:", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}
