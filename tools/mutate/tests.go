package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// tests are those of a package that are run on a mutant.
type tests struct {
	pkg     string
	pattern string        // as in go test -run
	clean   time.Duration // what they took without a change when they were measured last
	limit   time.Duration // they are ended after it; a multiple of clean
}

// newTests parses an argument: a package, or a package and a pattern with = between them.
func newTests(arg string) *tests {
	pkg, pattern, _ := strings.Cut(arg, "=")
	return &tests{pkg: pkg, pattern: pattern}
}

func (t *tests) String() string {
	return fmt.Sprintf("%s takes %v without a change, and is ended after %v", t.pkg, t.clean, t.limit)
}

var passed = regexp.MustCompile(`(?m)^ok\s+\S+\s+([0-9.]+s)`)

// measureLimit ends tests that are measured.
const measureLimit = time.Hour

// measure runs the tests without a change, and sets the limit. If they fail, every mutant would seem killed.
func (t *tests) measure(ctx context.Context) error {
	o := t.run(ctx, "", measureLimit)
	took := passed.FindStringSubmatch(o.output)
	switch {
	case o.err != nil:
		return fmt.Errorf("the tests of %s fail without a change: %w\n%s", t.pkg, o.err, o.output)
	case took == nil || strings.Contains(o.output, "[no tests to run]"):
		return fmt.Errorf("%s has no tests: %s", t.pkg, o.output)
	}
	var err error
	if t.clean, err = time.ParseDuration(took[1]); err != nil {
		return err
	}
	t.limit = max(*least, time.Duration(*times*float64(t.clean)))
	return nil
}

// outcome is that of a run of tests.
type outcome struct {
	output string
	err    error // nil: they passed
	hung   bool  // they were ended
}

// try runs the tests on a mutant. If they hang, they are measured again. If the limit is less than half the multiple of
// what they take now, which happens on a machine that has become busy, they are run again. An error says that no
// verdict is possible.
func (t *tests) try(ctx context.Context, overlay string) (outcome, error) {
	for {
		limit := t.limit
		o := t.run(ctx, overlay, limit)
		if ctx.Err() != nil {
			return o, errors.New("interrupted")
		}
		if !o.hung {
			return o, nil
		}
		if err := t.measure(ctx); err != nil {
			return o, err
		}
		if t.limit <= 2*limit {
			return o, nil
		}
	}
}

// run runs the tests. What it starts ends with it.
func (t *tests) run(ctx context.Context, overlay string, limit time.Duration) outcome {
	ctx, cancel := context.WithTimeout(ctx, limit+5*time.Minute) // the program's own end comes first; compiling takes time too
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-p", "1", "-vet=off", "-failfast", "-count=1", "-ldflags=-s -w",
		"-timeout", limit.String(), "-run", t.pattern, "-overlay", overlay, t.pkg)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	output, err := cmd.CombinedOutput()
	out := string(output)
	ended := ctx.Err() != nil || strings.Contains(out, "panic: test timed out") && !strings.Contains(out, "--- FAIL")
	return outcome{output: out, err: err, hung: err != nil && ended}
}
