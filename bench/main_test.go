package bench

import (
	"fmt"
	"os"
	"testing"
)

// TestMain runs the benchmarks or, where BenchmarkCrash has started this program again, the process to be killed.
func TestMain(m *testing.M) {
	if server, ok := os.LookupEnv(holderServer); ok {
		if err := hold(server, os.Getenv(holderElection)); err != nil {
			fmt.Fprintln(os.Stderr, "holder:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
