package bench

import (
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/go-leadership/leadership/internal/localdir"
	"github.com/go-leadership/leadership/lifeline"
)

// roles has what the other processes of a benchmark run, by the value of roleVariable.
var roles = map[string]func() error{}

const roleVariable = "LEADERSHIP_BENCH_ROLE"

// TestMain runs the benchmarks or, if a benchmark has started this process, its role.
func TestMain(m *testing.M) {
	lifeline.Main()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the candidates log what they do
	if name, ok := os.LookupEnv(roleVariable); ok {
		if err := roles[name](); err != nil {
			fmt.Fprintln(os.Stderr, name+":", err)
			os.Exit(1)
		}
		return
	}
	if name, ok := os.LookupEnv(holderService); ok {
		err := hold(serviceNamed(name), os.Getenv(holderServer), os.Getenv(holderTTL), os.Getenv(holderElection))
		if err != nil {
			fmt.Fprintln(os.Stderr, "holder:", err)
			os.Exit(1)
		}
		return
	}
	if err := os.Setenv("TMPDIR", localdir.Temp()); err != nil { // for the benchmarks' directories
		panic(err)
	}
	os.Exit(m.Run())
}
