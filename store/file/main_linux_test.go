package file

import (
	"os"
	"testing"

	"github.com/go-leadership/leadership/internal/localdir"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if err := os.Setenv("TMPDIR", localdir.Temp()); err != nil { // for the tests' directories
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
