package demo

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// wholeVariable is the environment variable that makes the test program play the demo, with its pace.
const wholeVariable = "LEADERSHIP_DEMO_WHOLE"

func TestMain(m *testing.M) {
	Child()
	if pace, err := time.ParseDuration(os.Getenv(wholeVariable)); err == nil {
		fmt.Fprintln(os.Stderr, Run(context.Background(), Config{TTL: longTTL, Pace: pace, Out: os.Stdout}))
		return
	}
	goleak.VerifyTestMain(tidy{m})
}

// tidy fails if the tests leave anything in the directory for temporary files. goleak finds processes that are left,
// since a goroutine waits for each.
type tidy struct{ m *testing.M }

func (t tidy) Run() int {
	dir, err := os.MkdirTemp("", "demo-test-@#?%-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	os.Setenv("TMPDIR", dir)
	os.Setenv("GORACE", "atexit_sleep_ms=0") // of the children: with the race detector a process takes a second to end
	code := t.m.Run()
	left, err := os.ReadDir(dir)
	if len(left) > 0 || err != nil {
		fmt.Fprintln(os.Stderr, "left behind:", left, err)
		return 1
	}
	return code
}
