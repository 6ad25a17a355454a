package file

import (
	"os"
	"testing"

	"github.com/go-leadership/leadership/internal/localdir"
	"go.uber.org/goleak"
)

// TestMain runs the tests or, if a test has started this program again, the role of that process.
func TestMain(m *testing.M) {
	if role, ok := os.LookupEnv(roleVariable); ok {
		play(role)
		return
	}
	if err := os.Setenv("TMPDIR", localdir.Temp()); err != nil { // for the tests' directories
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
