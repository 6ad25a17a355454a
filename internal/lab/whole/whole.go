// Package whole tells whether all tests are run, as make test does, or only those that take seconds and start no server:
// what go test does by itself, and make quick.
package whole

import (
	"os"
	"testing"
)

// Variable is the environment variable that asks for all tests if it is "all".
const Variable = "LEADERSHIP_TESTS"

// Tests reports whether all tests are run.
func Tests() bool { return os.Getenv(Variable) == "all" }

// Need skips a test that is not run otherwise, such as one that starts a server.
func Need(t testing.TB) {
	t.Helper()
	if !Tests() {
		t.Skipf("make test runs it, and so does %s=all go test", Variable)
	}
}
