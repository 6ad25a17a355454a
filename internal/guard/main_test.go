package guard

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	Main()
	if play := parts[os.Getenv(partVariable)]; play != nil {
		play()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// partVariable makes the test binary play a part: a command, or a supervisor that a test kills.
const partVariable = "LEADERSHIP_TEST_PART"

var parts = map[string]func(){}
