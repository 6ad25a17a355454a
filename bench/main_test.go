package bench

import (
	"fmt"
	"os"
	"testing"
)

// TestMain runs the benchmarks or, where BenchmarkCrash has started this program again, the process to be killed.
func TestMain(m *testing.M) {
	if name, ok := os.LookupEnv(holderService); ok {
		err := hold(serviceNamed(name), os.Getenv(holderServer), os.Getenv(holderTTL), os.Getenv(holderElection))
		if err != nil {
			fmt.Fprintln(os.Stderr, "holder:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
