package postgres

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the benchmarks or, if a benchmark has started this process, the holder.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the candidates log what they do
	if _, ok := os.LookupEnv(holderContender); ok {
		if err := hold(); err != nil {
			fmt.Fprintln(os.Stderr, "holder:", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(cleaning{m})
}

// cleaning removes what the servers have shared.
type cleaning struct{ *testing.M }

func (c cleaning) Run() int {
	defer func() {
		if template.dir != "" {
			_ = os.RemoveAll(filepath.Dir(template.dir))
		}
	}()
	return c.M.Run()
}
